#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <variant>

#include "bindings/bindings.h"
#include "cpu/problem.h"
#include "cpu/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace blendfield {

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::numpy, nb::ndim<1>>;
template <class T>
using Writable = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
Output<T> to_numpy(std::vector<T>&& values) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Output<T>(owned->data(), {owned->size()}, owner);
}

template <class T>
Output<T> fresh(int64_t size, T*& data) {
    auto* owned = new Buffer<T>(size);
    data = owned->data();
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
    return Output<T>(data, {static_cast<size_t>(size)}, owner);
}

void expect_size(size_t have, int64_t want, const char* what) {
    if (static_cast<int64_t>(have) != want)
        throw std::invalid_argument(std::string(what) + " has length " + std::to_string(have) + ", expected " +
                                    std::to_string(want));
}

// The problem together with the arrays of the program it points into.
template <class T>
class BoundProblem {
  public:
    BoundProblem(Array<int32_t> cardinalities, Array<int64_t> region_offsets, Array<int32_t> region_variables,
                 Array<int64_t> table_offsets, Array<int32_t> edge_parents, Array<int32_t> edge_children,
                 Array<double> counting_numbers, std::variant<Array<int8_t>, Array<int32_t>> region_class,
                 Array<int32_t> schedule, Array<int32_t> segment, int64_t segments, Array<T> tables, double epsilon,
                 int threads)
        : kept_{nb::cast(cardinalities), nb::cast(region_offsets), nb::cast(region_variables), nb::cast(table_offsets),
                nb::cast(edge_parents),  nb::cast(edge_children),  nb::cast(counting_numbers), nb::cast(segment)} {
        ProgramArrays p;
        p.regions = static_cast<int64_t>(region_offsets.size()) - 1;
        p.edges = static_cast<int64_t>(edge_parents.size());
        p.variables = static_cast<int64_t>(cardinalities.size());
        expect_size(table_offsets.size(), p.regions + 1, "table_offsets");
        expect_size(edge_children.size(), p.edges, "edge_children");
        std::visit([&](const auto& classes) { expect_size(classes.size(), p.regions, "region_class"); }, region_class);
        p.same_counting = counting_numbers.size() == 1;
        p.same_segment = segment.size() == 1;
        if (!p.same_counting) expect_size(counting_numbers.size(), p.regions, "counting_numbers");
        if (!p.same_segment) expect_size(segment.size(), p.regions, "segment");
        p.cardinalities = cardinalities.data();
        p.region_offsets = region_offsets.data();
        p.region_variables = region_variables.data();
        p.table_offsets = table_offsets.data();
        p.edge_parents = edge_parents.data();
        p.edge_children = edge_children.data();
        p.counting = counting_numbers.data();
        if (const auto* small = std::get_if<Array<int8_t>>(&region_class)) p.small_class = small->data();
        if (const auto* wide = std::get_if<Array<int32_t>>(&region_class)) p.region_class = wide->data();
        p.schedule = schedule.data();
        p.steps = static_cast<int64_t>(schedule.size());
        p.segment = segment.data();
        p.segments = segments;
        expect_size(region_variables.size(), p.region_offsets[p.regions], "region_variables");
        expect_size(tables.size(), p.table_offsets[p.regions], "tables");
        nb::gil_scoped_release release;
        problem_ = std::make_unique<Problem<T>>(p, tables.data(), epsilon, threads);
        p.region_class = nullptr, p.small_class = nullptr;
        program_ = p;
    }

    double epsilon() const { return problem_->epsilon(); }
    void set_epsilon(double epsilon) { problem_->set_epsilon(epsilon); }
    void sweep(int64_t count) {
        nb::gil_scoped_release release;
        problem_->sweep(count);
    }
    double sweep_value() {
        nb::gil_scoped_release release;
        return problem_->sweep_value();
    }
    Output<double> value(std::optional<double> epsilon) {
        std::vector<double> out;
        {
            nb::gil_scoped_release release;
            out = problem_->value(epsilon.value_or(problem_->epsilon()));
        }
        return to_numpy(std::move(out));
    }
    Output<T> beliefs(std::optional<double> epsilon) {
        T* data;
        auto out = fresh<T>(program_.table_offsets[program_.regions], data);
        nb::gil_scoped_release release;
        problem_->value_and_beliefs(epsilon.value_or(problem_->epsilon()), data);
        return out;
    }
    nb::tuple value_and_beliefs(std::optional<Writable<T>> out) {
        const int64_t size = program_.table_offsets[program_.regions];
        T* data;
        nb::object beliefs;
        if (out) {
            expect_size(out->size(), size, "out");
            data = out->data();
            beliefs = nb::cast(*out);
        } else {
            beliefs = nb::cast(fresh<T>(size, data));
        }
        std::vector<double> value;
        {
            nb::gil_scoped_release release;
            value = problem_->value_and_beliefs(problem_->epsilon(), data);
        }
        return nb::make_tuple(to_numpy(std::move(value)), beliefs);
    }
    int64_t set_potentials(Array<T> tables) {
        expect_size(tables.size(), program_.table_offsets[program_.regions], "tables");
        nb::gil_scoped_release release;
        return problem_->set_potentials(tables.data());
    }
    nb::tuple trial(Array<T> direction, Array<double> steps) {
        expect_size(direction.size(), program_.table_offsets[program_.regions], "direction");
        const int count = static_cast<int>(steps.size());
        std::vector<double> points(3 * steps.size() + 3), columns[3];
        auto* of_step = reinterpret_cast<double (*)[3]>(points.data());
        {
            nb::gil_scoped_release release;
            problem_->line(direction.data(), steps.data(), count, of_step);
        }
        for (int i = 0; i < 3; ++i)
            for (int k = 0; k < count; ++k) columns[i].push_back(of_step[k][i]);
        return nb::make_tuple(to_numpy(std::move(columns[0])), to_numpy(std::move(columns[1])),
                              to_numpy(std::move(columns[2])));
    }
    Output<T> messages() const {
        T* data;
        auto out = fresh<T>(problem_->message_size(), data);
        nb::gil_scoped_release release;
        problem_->messages(data);
        return out;
    }
    void set_messages(Array<T> flat) {
        expect_size(flat.size(), problem_->message_size(), "messages");
        nb::gil_scoped_release release;
        problem_->set_messages(flat.data());
    }
    nb::tuple certificate(double smoothing, bool region_gaps, bool candidate) {
        CertificateSums sums;
        double* data = nullptr;
        nb::object q = nb::none();
        if (candidate) q = nb::cast(fresh<double>(program_.table_offsets[program_.regions], data));
        {
            nb::gil_scoped_release release;
            sums = problem_->certificate(smoothing, region_gaps, data);
        }
        nb::object gaps = nb::none();
        if (region_gaps) gaps = nb::cast(to_numpy(std::move(sums.region_gaps)));
        return nb::make_tuple(to_numpy(std::move(sums.value)), to_numpy(std::move(sums.gap)),
                              to_numpy(std::move(sums.spread)), gaps, q);
    }
    Output<double> score(Array<int64_t> labels) const {
        check(labels);
        std::vector<double> out;
        {
            nb::gil_scoped_release release;
            out = problem_->score(labels.data());
        }
        return to_numpy(std::move(out));
    }
    Output<int64_t> belief_labels() const {
        std::vector<int64_t> labels(program_.variables);
        {
            nb::gil_scoped_release release;
            problem_->belief_labels(labels.data());
        }
        return to_numpy(std::move(labels));
    }
    Output<int64_t> decode() const {
        std::vector<int64_t> labels(program_.variables);
        {
            nb::gil_scoped_release release;
            problem_->decode(labels.data());
        }
        return to_numpy(std::move(labels));
    }
    Output<int64_t> local_search(Array<int64_t> start, int64_t max_passes) const {
        check(start);
        std::vector<int64_t> labels(start.data(), start.data() + start.size());
        {
            nb::gil_scoped_release release;
            problem_->local_search(labels.data(), max_passes);
        }
        return to_numpy(std::move(labels));
    }

    Output<int64_t> block_search(Array<int64_t> start, int64_t rounds, uint64_t seed) const {
        check(start);
        std::vector<int64_t> labels(start.data(), start.data() + start.size());
        {
            nb::gil_scoped_release release;
            problem_->block_search(labels.data(), rounds, seed);
        }
        return to_numpy(std::move(labels));
    }

    void allocate_history(int64_t slots) { problem_->allocate_history(std::max<int64_t>(slots, 0)); }
    void clear_history() { problem_->clear_history(); }
    void save_point() {
        nb::gil_scoped_release release;
        problem_->save_point();
    }
    Output<double> push(int64_t slot) {
        check(slot);
        std::vector<double> products(problem_->history_slots());
        {
            nb::gil_scoped_release release;
            problem_->push(slot, products.data());
        }
        return to_numpy(std::move(products));
    }
    void mix(Array<double> weights) {
        expect_size(weights.size(), problem_->history_slots(), "weights");
        nb::gil_scoped_release release;
        problem_->mix(weights.data());
    }
    void restore(int64_t slot) {
        check(slot);
        nb::gil_scoped_release release;
        problem_->restore(slot);
    }
    int64_t memory_bytes() const { return problem_->bytes(); }

  private:
    void check(const Array<int64_t>& labels) const {
        expect_size(labels.size(), program_.variables, "labels");
        for (size_t v = 0; v < labels.size(); ++v)
            if (labels.data()[v] < 0 || labels.data()[v] >= program_.cardinalities[v])
                throw std::invalid_argument("label " + std::to_string(labels.data()[v]) + " of variable " +
                                            std::to_string(v) + " is out of range");
    }
    void check(int64_t slot) const {
        if (slot < 0 || slot >= problem_->history_slots()) throw std::invalid_argument("no such history slot");
    }

    std::vector<nb::object> kept_;
    ProgramArrays program_;
    std::unique_ptr<Problem<T>> problem_;
};

template <class T>
void bind_problem(nb::module_& m, const char* name) {
    using P = BoundProblem<T>;
    nb::class_<P>(m, name, "A compiled problem; see blendfield.backends.protocol.Problem.")
        .def(nb::init<Array<int32_t>, Array<int64_t>, Array<int32_t>, Array<int64_t>, Array<int32_t>, Array<int32_t>,
                      Array<double>, Array<int32_t>, Array<int32_t>, Array<int32_t>, int64_t, Array<T>, double, int>(),
             "cardinalities"_a, "region_offsets"_a, "region_variables"_a, "table_offsets"_a, "edge_parents"_a,
             "edge_children"_a, "counting_numbers"_a, "region_class"_a, "schedule"_a, "segment"_a, "num_segments"_a,
             "tables"_a, "epsilon"_a, "threads"_a)
        .def_prop_ro("epsilon", &P::epsilon)
        .def("set_epsilon", &P::set_epsilon, "value"_a)
        .def("sweep", &P::sweep, "count"_a = 1)
        .def("sweep_value", &P::sweep_value)
        .def("value", &P::value, "epsilon"_a = nb::none())
        .def("beliefs", &P::beliefs, "epsilon"_a = nb::none())
        .def("messages", &P::messages)
        .def("set_messages", &P::set_messages, "flat"_a)
        .def("set_potentials", &P::set_potentials, "tables"_a)
        .def("value_and_beliefs", &P::value_and_beliefs, "out"_a.noconvert().none() = nb::none())
        .def("trial", &P::trial, "direction"_a, "steps"_a)
        .def("certificate", &P::certificate, "smoothing"_a, "region_gaps"_a, "candidate"_a)
        .def("score", &P::score, "labels"_a)
        .def("belief_labels", &P::belief_labels)
        .def("decode", &P::decode)
        .def("local_search", &P::local_search, "labels"_a, "max_passes"_a)
        .def("block_search", &P::block_search, "labels"_a, "rounds"_a, "seed"_a)
        .def("allocate_history", &P::allocate_history, "slots"_a)
        .def("clear_history", &P::clear_history)
        .def("save_point", &P::save_point)
        .def("push", &P::push, "slot"_a)
        .def("mix", &P::mix, "weights"_a)
        .def("restore", &P::restore, "slot"_a)
        .def_prop_ro("memory_bytes", &P::memory_bytes);
}

}  // namespace

void bind_cpu(nb::module_& m) {
    bind_problem<double>(m, "Problem64");
    bind_problem<float>(m, "Problem32");
    m.def("default_threads", &default_threads, "Threads used when none are asked for.");
    m.def(
        "instruction_set", [] { return std::string(instruction_set().name); },
        "Name of the instruction set chosen for this CPU.");
    m.def(
        "bare_exp_pass",
        [](Array<double> x) {
            nb::gil_scoped_release release;
            return instruction_set().float64->bare_exp(x.data(), static_cast<int64_t>(x.size()));
        },
        "x"_a, "Sum of exp over an array: the yardstick of the benchmarks.");
    m.def(
        "bare_exp_pass",
        [](Array<float> x) {
            nb::gil_scoped_release release;
            return instruction_set().float32->bare_exp(x.data(), static_cast<int64_t>(x.size()));
        },
        "x"_a);
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const EmptyRegion& e) {
            nb::module_ errors = nb::module_::import_("blendfield.errors");
            const std::string text = "region " + std::to_string(e.region) +
                                     ": every label is forbidden (-inf), by itself or through its neighbours; at least "
                                     "one joint label must stay";
            PyErr_SetString(errors.attr("SupportError").ptr(), text.c_str());
        } catch (const std::length_error& e) {
            nb::module_ errors = nb::module_::import_("blendfield.errors");
            PyErr_SetString(errors.attr("TableSizeError").ptr(), e.what());
        }
    });
}

}  // namespace blendfield
