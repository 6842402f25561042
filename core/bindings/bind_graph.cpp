// Bindings of core/graph: turn Python sequences into flat arrays, check ranges, release the interpreter lock.
// Faults of the input are ValueErrors here; blendfield.graph turns them into GraphErrors.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "bindings/bindings.h"
#include "graph/counting.h"
#include "graph/edges.h"
#include "graph/regions.h"
#include "graph/relinking.h"
#include "graph/schedule.h"

namespace nb = nanobind;

namespace blendfield {
namespace {

template <class T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using EdgeArrays = std::pair<Output<int32_t>, Output<int32_t>>;

template <class T>
std::span<const T> view(const Input<T>& array) {
    return {array.data(), array.size()};
}

template <class T>
Output<T> to_numpy(std::vector<T> values) {
    values.shrink_to_fit();
    auto owned = std::make_unique<std::vector<T>>(std::move(values));
    std::vector<T>* vector = owned.get();
    nb::capsule owner(vector, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    owned.release();
    return Output<T>(vector->data(), {vector->size()}, owner);
}

EdgeArrays to_numpy(EdgeList edges) {
    return {to_numpy(std::move(edges.parents)), to_numpy(std::move(edges.children))};
}

Regions regions_view(const Input<int64_t>& offsets, const Input<int32_t>& variables) {
    const auto o = view(offsets);
    if (o.empty() || o.front() != 0 || o.back() != static_cast<int64_t>(variables.size()) || !std::ranges::is_sorted(o))
        throw std::invalid_argument("expected region offsets that rise from 0 to the number of region variables");
    if (o.size() > static_cast<size_t>(INT32_MAX))
        throw std::invalid_argument("the graph has more than 2^31 - 1 regions");
    return {o, view(variables)};
}

EdgeView edges_view(int64_t num_nodes, const Input<int32_t>& parents, const Input<int32_t>& children) {
    if (num_nodes < 0 || num_nodes > INT32_MAX) throw std::invalid_argument("expected at most 2^31 - 1 regions");
    if (parents.size() != children.size())
        throw std::invalid_argument("expected as many edge parents as edge children");
    for (const auto& ends : {view(parents), view(children)})
        for (const int32_t r : ends)
            if (r < 0 || r >= num_nodes)
                throw std::invalid_argument("an edge names region " + std::to_string(r) +
                                            "; expected regions from 0 to " + std::to_string(num_nodes - 1));
    return {view(parents), view(children)};
}

template <class Function>
auto without_lock(Function function) {
    nb::gil_scoped_release release;
    return function();
}

// ---- Python sequences to flat arrays --------------------------------------------------------------------------------

std::string type_of(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

// An iterator over a sequence that has a length and no more than `longest` items; anything else is a fault.
// Iterators (not borrowed items) because the items' __index__ is foreign code that might change the sequence.
nb::object iterate(nb::handle object, const std::string& where, const char* expected, Py_ssize_t longest) {
    PyObject* sequence = object.ptr();
    const bool is_sequence = PyList_Check(sequence) || PyTuple_Check(sequence) ||
                             (PySequence_Check(sequence) && !PyUnicode_Check(sequence) && !PyBytes_Check(sequence) &&
                              !PyByteArray_Check(sequence) && !PyDict_Check(sequence));
    const Py_ssize_t size = is_sequence ? PyObject_Size(sequence) : -1;
    PyObject* iterator = size < 0 ? nullptr : PyObject_GetIter(sequence);
    if (!iterator) {
        PyErr_Clear();
        throw nb::value_error((where + ": expected " + expected + ", got " + type_of(object)).c_str());
    }
    nb::object result = nb::steal(iterator);
    if (size > longest)
        throw nb::value_error(
            (where + ": expected at most " + std::to_string(longest) + " items, got " + std::to_string(size)).c_str());
    return result;
}

// The next item, or an invalid object at the end.
nb::object next(const nb::object& iterator) {
    PyObject* item = PyIter_Next(iterator.ptr());
    if (!item && PyErr_Occurred()) throw nb::python_error();
    return nb::steal(item);
}

int32_t to_int32(nb::handle item, const std::string& where, int64_t k) {
    const auto fail = [&](const std::string& found) {
        throw nb::value_error(
            (where + ": expected integers, got " + found + " at position " + std::to_string(k)).c_str());
    };
    PyObject* object = item.ptr();
    nb::object index;
    if (!PyLong_CheckExact(object)) {
        const char* name = Py_TYPE(object)->tp_name;
        if (PyBool_Check(object) || !PyIndex_Check(object) || !std::strcmp(name, "numpy.bool") ||
            !std::strcmp(name, "numpy.bool_"))
            fail(name);
        index = nb::steal(PyNumber_Index(object));
        if (!index.is_valid()) {
            PyErr_Clear();
            fail(name);
        }
        object = index.ptr();
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0 || value > INT32_MAX || value < INT32_MIN) fail("a number beyond 32 bits");
    return static_cast<int32_t>(value);
}

// rows of integers -> (offsets [n+1], values [offsets[n]]); "region 3: expected ..." when they are not.
std::pair<Output<int64_t>, Output<int32_t>> parse_rows(nb::handle rows, const std::string& subject, int64_t longest) {
    std::vector<int64_t> offsets{0};
    std::vector<int32_t> values;
    const nb::object iterator = iterate(rows, subject + "s", "a sequence", INT32_MAX - 1);
    while (const nb::object row = next(iterator)) {
        if (offsets.size() > static_cast<size_t>(INT32_MAX)) throw nb::value_error("more than 2^31 - 1 items");
        const std::string where = subject + " " + std::to_string(offsets.size() - 1);
        const nb::object items = iterate(row, where, "a tuple of integers", longest);
        int64_t count = 0;
        while (const nb::object item = next(items)) {
            if (count == longest) throw nb::value_error((where + ": the sequence is longer than its length").c_str());
            values.push_back(to_int32(item, where, count++));
        }
        offsets.push_back(static_cast<int64_t>(values.size()));
    }
    return {to_numpy(std::move(offsets)), to_numpy(std::move(values))};
}

// integers -> [n]
Output<int32_t> parse_integers(nb::handle items, const std::string& subject) {
    std::vector<int32_t> values;
    const nb::object iterator = iterate(items, subject, "a sequence of integers", INT32_MAX - 1);
    while (const nb::object item = next(iterator)) {
        if (values.size() == static_cast<size_t>(INT32_MAX)) throw nb::value_error("more than 2^31 - 1 items");
        values.push_back(to_int32(item, subject, static_cast<int64_t>(values.size())));
    }
    return to_numpy(std::move(values));
}

}  // namespace

void bind_graph(nb::module_& m) {
    using nb::literals::operator""_a;

    m.def("parse_rows", &parse_rows, "rows"_a.none(), "subject"_a, "longest"_a,
          "Rows of integers as (offsets int64 [n+1], values int32 [offsets[n]]).");
    m.def("parse_integers", &parse_integers, "items"_a.none(), "subject"_a, "A sequence of integers as int32 [n].");

    m.def(
        "check_regions",
        [](Input<int64_t> offsets, Input<int32_t> variables, int32_t num_variables, const std::string& subject,
           bool may_be_empty) {
            const Regions regions = regions_view(offsets, variables);
            without_lock([&] {
                check_regions(regions, num_variables, subject, may_be_empty);
                return 0;
            });
        },
        "region_offsets"_a, "region_variables"_a, "num_variables"_a, "subject"_a = "region", "may_be_empty"_a = false,
        "Raises ValueError for the first empty region, unknown or repeated variable.");
    m.def(
        "first_with_same_variables",
        [](Input<int64_t> offsets, Input<int32_t> variables) {
            const Regions regions = regions_view(offsets, variables);
            return to_numpy(without_lock([&] { return first_with_same_variables(regions); }));
        },
        "region_offsets"_a, "region_variables"_a, "First region with the same set of variables, int32 [R].");

    m.def(
        "hasse_edges",
        [](Input<int64_t> offsets, Input<int32_t> variables, int32_t num_variables) {
            const Regions regions = regions_view(offsets, variables);
            return to_numpy(without_lock([&] { return hasse_edges(regions, num_variables); }));
        },
        "region_offsets"_a, "region_variables"_a, "num_variables"_a, "(parents, children) of the Hasse diagram.");
    m.def(
        "variable_edges",
        [](Input<int64_t> offsets, Input<int32_t> variables, int32_t num_variables) {
            const Regions regions = regions_view(offsets, variables);
            return to_numpy(without_lock([&] { return variable_edges(regions, num_variables); }));
        },
        "region_offsets"_a, "region_variables"_a, "num_variables"_a, "(parents, children) to single variables.");
    m.def(
        "checked_edges",
        [](Input<int64_t> offsets, Input<int32_t> variables, Input<int32_t> parents, Input<int32_t> children) {
            const Regions regions = regions_view(offsets, variables);
            if (parents.size() != children.size())
                throw std::invalid_argument("expected as many edge parents as edge children");
            const EdgeView edges{view(parents), view(children)};
            return to_numpy(without_lock([&] { return checked_edges(regions, edges); }));
        },
        "region_offsets"_a, "region_variables"_a, "edge_parents"_a, "edge_children"_a,
        "The edges sorted by (parent, child); raises ValueError for the first that is no strict inclusion.");

    m.def(
        "moebius_numbers",
        [](Input<int64_t> offsets, Input<int32_t> parents, Input<int32_t> children) {
            const EdgeView edges = edges_view(static_cast<int64_t>(offsets.size()) - 1, parents, children);
            return to_numpy(without_lock([&] { return moebius_numbers(view(offsets), edges); }));
        },
        "region_offsets"_a, "edge_parents"_a, "edge_children"_a, "1 - the sum over all ancestors, float64 [R].");
    m.def(
        "spanning_tree_uses",
        [](int32_t num_nodes, Input<int32_t> starts, Input<int32_t> ends, int32_t at_least, uint64_t seed) {
            const EdgeView links = edges_view(num_nodes, starts, ends);
            auto [uses, trees] = without_lock([&] { return spanning_tree_uses(num_nodes, links, at_least, seed); });
            return std::pair(to_numpy(std::move(uses)), trees);
        },
        "num_nodes"_a, "starts"_a, "ends"_a, "at_least"_a, "seed"_a,
        "(number of uses of each link int32 [L], number of trees).");

    m.def(
        "relink",
        [](Input<int64_t> offsets, Input<double> counting_numbers, Input<int32_t> parents, Input<int32_t> children) {
            const EdgeView edges = edges_view(static_cast<int64_t>(offsets.size()) - 1, parents, children);
            if (counting_numbers.size() + 1 != offsets.size())
                throw std::invalid_argument("expected one counting number per region");
            return to_numpy(without_lock([&] { return relink(view(offsets), view(counting_numbers), edges); }));
        },
        "region_offsets"_a, "counting_numbers"_a, "edge_parents"_a, "edge_children"_a,
        "(parents, children) after passing over inner parents with c <= 0.");

    m.def(
        "colour_classes",
        [](int32_t num_regions, Input<int32_t> parents, Input<int32_t> children) {
            const EdgeView edges = edges_view(num_regions, parents, children);
            return to_numpy(without_lock([&] { return colour_classes(num_regions, edges); }));
        },
        "num_regions"_a, "edge_parents"_a, "edge_children"_a, "Class of each sender, int32 [R].");
    m.def(
        "forest_classes",
        [](int32_t num_regions, Input<int32_t> parents, Input<int32_t> children) -> std::optional<Output<int32_t>> {
            const EdgeView edges = edges_view(num_regions, parents, children);
            auto classes = without_lock([&] { return forest_classes(num_regions, edges); });
            if (!classes) return std::nullopt;
            return to_numpy(std::move(*classes));
        },
        "num_regions"_a, "edge_parents"_a, "edge_children"_a, "Upward classes int32 [R], None when there is a cycle.");
    m.def(
        "components",
        [](int32_t num_regions, Input<int32_t> parents, Input<int32_t> children) {
            const EdgeView edges = edges_view(num_regions, parents, children);
            auto [component, count] = without_lock([&] { return components(num_regions, edges); });
            return std::pair(to_numpy(std::move(component)), count);
        },
        "num_regions"_a, "edge_parents"_a, "edge_children"_a, "(component of each region int32 [R], count).");
}

}  // namespace blendfield
