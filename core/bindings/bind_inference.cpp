// Bindings of core/inference: mean field, elimination and join graphs.
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "inference/elimination.h"
#include "inference/join.h"
#include "inference/mean_field.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace blendfield {
namespace {

template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Writable = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::numpy, nb::ndim<1>>;

template <class T>
Output<T> to_numpy(std::vector<T>&& values) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Output<T>(owned->data(), {owned->size()}, owner);
}

void expect_size(size_t have, int64_t want, const char* what) {
    if (static_cast<int64_t>(have) != want)
        throw std::invalid_argument(std::string(what) + " has length " + std::to_string(have) + ", expected " +
                                    std::to_string(want));
}

// The arrays of a region graph, kept alive as long as the object that points into them.
struct KeptArrays {
    std::vector<nb::object> kept;
    RegionArrays arrays;
    KeptArrays(const Array<int32_t>& cardinalities, const Array<int64_t>& region_offsets,
               const Array<int32_t>& region_variables, const Array<int64_t>& table_offsets)
        : kept{nb::cast(cardinalities), nb::cast(region_offsets), nb::cast(region_variables), nb::cast(table_offsets)} {
        if (region_offsets.size() == 0) throw std::invalid_argument("region_offsets is empty");
        arrays.regions = static_cast<int64_t>(region_offsets.size()) - 1;
        arrays.variables = static_cast<int64_t>(cardinalities.size());
        arrays.cardinalities = cardinalities.data();
        arrays.region_offsets = region_offsets.data();
        arrays.region_variables = region_variables.data();
        arrays.table_offsets = table_offsets.data();
        expect_size(region_variables.size(), arrays.region_offsets[arrays.regions], "region_variables");
        expect_size(table_offsets.size(), arrays.regions + 1, "table_offsets");
    }
    int64_t entries() const { return arrays.table_offsets[arrays.regions]; }
};

template <class T>
class BoundMeanField {
  public:
    BoundMeanField(Array<int32_t> cardinalities, Array<int64_t> region_offsets, Array<int32_t> region_variables,
                   Array<int64_t> table_offsets, Array<T> tables, double epsilon, Array<int32_t> classes,
                   Array<int32_t> models, int64_t count, int threads)
        : graph_(cardinalities, region_offsets, region_variables, table_offsets), count_(count) {
        expect_size(tables.size(), graph_.entries(), "tables");
        expect_size(classes.size(), graph_.arrays.variables, "classes");
        expect_size(models.size(), graph_.arrays.variables, "models");
        graph_.kept.push_back(nb::cast(tables));
        nb::gil_scoped_release release;
        field_ = std::make_unique<MeanField<T>>(graph_.arrays, tables.data(), epsilon, classes.data(), models.data(),
                                                count, threads);
    }
    void set(Array<double> q) {
        expect_size(q.size(), field_->size(), "distributions");
        field_->set(q.data());
    }
    Output<double> distributions() const { return to_numpy(std::vector<double>(field_->distributions())); }
    Output<double> sweep(Array<uint8_t> active) {
        expect_size(active.size(), count_, "active");
        std::vector<double> change;
        {
            nb::gil_scoped_release release;
            change = field_->sweep(active.data());
        }
        return to_numpy(std::move(change));
    }
    nb::tuple value() const {
        std::vector<double> sums, forbidden;
        {
            nb::gil_scoped_release release;
            sums = field_->value(forbidden);
        }
        return nb::make_tuple(to_numpy(std::move(sums)), to_numpy(std::move(forbidden)));
    }
    void beliefs(Writable<T> out) const {
        expect_size(out.size(), graph_.entries(), "beliefs");
        nb::gil_scoped_release release;
        field_->beliefs(out.data());
    }

  private:
    KeptArrays graph_;
    int64_t count_;
    std::unique_ptr<MeanField<T>> field_;
};

template <class T>
void bind_mean_field(nb::module_& m, const char* name) {
    using F = BoundMeanField<T>;
    nb::class_<F>(m, name, "Mean field; see blendfield.backends.mean_field.")
        .def(nb::init<Array<int32_t>, Array<int64_t>, Array<int32_t>, Array<int64_t>, Array<T>, double, Array<int32_t>,
                      Array<int32_t>, int64_t, int>(),
             "cardinalities"_a, "region_offsets"_a, "region_variables"_a, "table_offsets"_a, "tables"_a, "epsilon"_a,
             "classes"_a, "models"_a, "num_models"_a, "threads"_a)
        .def("set", &F::set, "distributions"_a)
        .def("distributions", &F::distributions)
        .def("sweep", &F::sweep, "active"_a)
        .def("value", &F::value)
        .def("beliefs", &F::beliefs, "out"_a);
}

class BoundElimination {
  public:
    BoundElimination(Array<int32_t> cardinalities, Array<int64_t> region_offsets, Array<int32_t> region_variables,
                     Array<int64_t> table_offsets, Array<double> tables, Array<int32_t> models, int64_t count,
                     double epsilon, int threads)
        : graph_(cardinalities, region_offsets, region_variables, table_offsets) {
        expect_size(tables.size(), graph_.entries(), "tables");
        expect_size(models.size(), graph_.arrays.variables, "models");
        graph_.kept.push_back(nb::cast(models));
        tables_ = nb::cast(tables);
        nb::gil_scoped_release release;
        elimination_ =
            std::make_unique<Elimination>(graph_.arrays, tables.data(), models.data(), count, epsilon, threads);
    }
    const Elimination& get() const { return *elimination_; }
    void load() {
        {
            nb::gil_scoped_release release;
            elimination_->load();
        }
        tables_ = nb::none();  // they were copied
    }
    bool up(double work) {
        nb::gil_scoped_release release;
        return elimination_->up(work);
    }
    bool down(double work) {
        nb::gil_scoped_release release;
        return elimination_->down(work);
    }
    Output<double> values() const { return to_numpy(elimination_->values()); }
    Output<int64_t> labels() const {
        std::vector<int64_t> labels(graph_.arrays.variables);
        elimination_->labels(labels.data());
        return to_numpy(std::move(labels));
    }
    template <class T>
    void beliefs(Writable<T> out) const {
        expect_size(out.size(), graph_.entries(), "beliefs");
        nb::gil_scoped_release release;
        elimination_->beliefs(out.data());
    }

  private:
    KeptArrays graph_;
    nb::object tables_;
    std::unique_ptr<Elimination> elimination_;
};

void bind_elimination(nb::module_& m) {
    using E = BoundElimination;
    nb::class_<E>(m, "Elimination", "Exact inference; see blendfield.backends.elimination.")
        .def(nb::init<Array<int32_t>, Array<int64_t>, Array<int32_t>, Array<int64_t>, Array<double>, Array<int32_t>,
                      int64_t, double, int>(),
             "cardinalities"_a, "region_offsets"_a, "region_variables"_a, "table_offsets"_a, "tables"_a, "models"_a,
             "num_models"_a, "epsilon"_a, "threads"_a)
        .def_prop_ro("fits", [](const E& e) { return e.get().fits(); })
        .def_prop_ro("bytes", [](const E& e) { return e.get().bytes(); })
        .def_prop_ro("width", [](const E& e) { return e.get().order().width; })
        .def_prop_ro("largest", [](const E& e) { return e.get().order().largest; })
        .def_prop_ro("entries", [](const E& e) { return e.get().order().entries; })
        .def_prop_ro("infeasible", [](const E& e) { return e.get().infeasible(); })
        .def("load", &E::load)
        .def("up", &E::up, "work"_a)
        .def("down", &E::down, "work"_a)
        .def("values", &E::values)
        .def("labels", &E::labels)
        .def("beliefs", &E::beliefs<double>, "out"_a)
        .def("beliefs", &E::beliefs<float>, "out"_a);
}

nb::tuple join(Array<int32_t> cardinalities, Array<int64_t> region_offsets, Array<int32_t> region_variables,
               Array<int64_t> table_offsets, double most_entries) {
    const KeptArrays graph(cardinalities, region_offsets, region_variables, table_offsets);
    JoinGraph joined;
    {
        nb::gil_scoped_release release;
        joined = join_regions(graph.arrays, most_entries);
    }
    return nb::make_tuple(to_numpy(std::move(joined.offsets)), to_numpy(std::move(joined.variables)),
                          to_numpy(std::move(joined.holder)), joined.exact);
}

Output<double> join_flat(Array<int32_t> cardinalities, Array<int64_t> region_offsets, Array<int32_t> region_variables,
                         Array<int64_t> table_offsets, Array<double> tables, Array<int64_t> joined_offsets,
                         Array<int32_t> joined_variables, Array<int64_t> joined_table_offsets, Array<int32_t> holder) {
    const KeptArrays graph(cardinalities, region_offsets, region_variables, table_offsets);
    const KeptArrays joined(cardinalities, joined_offsets, joined_variables, joined_table_offsets);
    expect_size(tables.size(), graph.entries(), "tables");
    expect_size(holder.size(), graph.arrays.regions, "holder");
    std::vector<double> out(joined.entries());
    {
        nb::gil_scoped_release release;
        join_tables(graph.arrays, tables.data(), joined.arrays, holder.data(), out.data());
    }
    return to_numpy(std::move(out));
}

void bind_join(nb::module_& m) {
    m.def("join_regions", &join, "cardinalities"_a, "region_offsets"_a, "region_variables"_a, "table_offsets"_a,
          "most_entries"_a,
          "(region_offsets, region_variables, holder [R], exact) of the join graph; see core/inference/join.h.");
    m.def("join_tables", &join_flat, "cardinalities"_a, "region_offsets"_a, "region_variables"_a, "table_offsets"_a,
          "tables"_a, "joined_offsets"_a, "joined_variables"_a, "joined_table_offsets"_a, "holder"_a,
          "The tables of the join graph, one after the other.");
}

}  // namespace

void bind_inference(nb::module_& m) {
    bind_mean_field<double>(m, "MeanField64");
    bind_mean_field<float>(m, "MeanField32");
    bind_elimination(m);
    bind_join(m);
}

}  // namespace blendfield
