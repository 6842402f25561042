// Bindings of core/features: arrays are taken as they are, never converted, and changed in place.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/bindings.h"
#include "cpu/thread_pool.h"
#include "features/features.h"
#include "features/products.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace blendfield {

namespace {

using namespace features;

template <class T, int N = 1>
using In = nb::ndarray<const T, nb::numpy, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T>
using InOut = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using InOut2 = nb::ndarray<double, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class A>
auto view(const A& array) {
    return Vector<std::remove_pointer_t<decltype(array.data())>>{array.data(), static_cast<int64_t>(array.size())};
}

void expect_one_per_term(const char* what, size_t have, int64_t terms) {
    if (static_cast<int64_t>(have) != terms)
        throw std::invalid_argument(std::string(what) + " has length " + std::to_string(have) +
                                    "; expected one per term, " + std::to_string(terms));
}

Vector<double> two_rows(const InOut2& sums) {
    if (sums.shape(0) != 2) throw std::invalid_argument("sums must have two rows");
    return {sums.data(), static_cast<int64_t>(sums.size())};
}

int threads_or_default(int threads) { return threads > 0 ? threads : default_threads(); }

Terms terms_view(const In<int64_t>& start, const In<int32_t>& weight, const std::optional<In<double>>& coefficient,
                 const std::optional<In<int32_t>>& table, const In<double, 2>& tables) {
    Terms terms;
    terms.count = static_cast<int64_t>(start.size());
    terms.rows = static_cast<int64_t>(tables.shape(0));
    terms.entries = static_cast<int64_t>(tables.shape(1));
    if (terms.entries < 1) throw std::invalid_argument("expected at least one entry per term");
    expect_one_per_term("weight", weight.size(), terms.count);
    if (coefficient) expect_one_per_term("coefficient", coefficient->size(), terms.count);
    if (table)
        expect_one_per_term("table", table->size(), terms.count);
    else if (terms.rows != 1)
        expect_one_per_term("tables", tables.shape(0), terms.count);
    terms.start = start.data();
    terms.weight = weight.data();
    terms.coefficient = coefficient ? coefficient->data() : nullptr;
    terms.table = table ? table->data() : nullptr;
    terms.tables = tables.data();
    return terms;
}

Free free_view(const In<int64_t>& start, const In<int32_t>& base, const std::optional<In<double>>& coefficient,
               int64_t entries) {
    Free terms;
    terms.count = static_cast<int64_t>(start.size());
    if (entries < 1) throw std::invalid_argument("expected at least one entry per term");
    terms.entries = entries;
    expect_one_per_term("base", base.size(), terms.count);
    if (coefficient) expect_one_per_term("coefficient", coefficient->size(), terms.count);
    terms.start = start.data();
    terms.base = base.data();
    terms.coefficient = coefficient ? coefficient->data() : nullptr;
    return terms;
}

template <class T>
void bind_terms(nb::module_& m) {
    using Start = In<int64_t>;
    using Index = In<int32_t>;
    using Coefficient = std::optional<In<double>>;
    using Table = std::optional<In<int32_t>>;
    using Tables = In<double, 2>;
    m.def(
        "terms_apply",
        [](InOut<T> flat, In<double> w, Start start, Index weight, Coefficient coefficient, Table table, Tables tables,
           int threads) {
            const Terms terms = terms_view(start, weight, coefficient, table, tables);
            nb::gil_scoped_release release;
            apply<T>(terms, view(w), view(flat), threads_or_default(threads));
        },
        "flat"_a.noconvert(), "w"_a.noconvert(), "start"_a.noconvert(), "weight"_a.noconvert(),
        "coefficient"_a.noconvert().none(), "table"_a.noconvert().none(), "tables"_a.noconvert(), "threads"_a = 0,
        "flat[start + y] += w[weight] coefficient tables[table, y], term by term; start must rise.");
    m.def(
        "terms_moments",
        [](InOut<double> gradient, In<T> d, Start start, Index weight, Coefficient coefficient, Table table,
           Tables tables, int threads) {
            const Terms terms = terms_view(start, weight, coefficient, table, tables);
            nb::gil_scoped_release release;
            moments<T>(terms, view(d), view(gradient), threads_or_default(threads));
        },
        "gradient"_a.noconvert(), "d"_a.noconvert(), "start"_a.noconvert(), "weight"_a.noconvert(),
        "coefficient"_a.noconvert().none(), "table"_a.noconvert().none(), "tables"_a.noconvert(), "threads"_a = 0,
        "gradient[weight] += coefficient sum_y d[start + y] tables[table, y], term by term.");
    m.def(
        "terms_statistics",
        [](InOut2 sums, In<T> beliefs, In<double> scale, Index region, Start start, Index weight,
           Coefficient coefficient, Table table, Tables tables, int threads) {
            const Terms terms = terms_view(start, weight, coefficient, table, tables);
            const Vector<double> rows = two_rows(sums);
            expect_one_per_term("region", region.size(), terms.count);
            nb::gil_scoped_release release;
            statistics<T>(terms, view(beliefs), {region.data(), view(scale)}, rows, threads_or_default(threads));
        },
        "sums"_a.noconvert(), "beliefs"_a.noconvert(), "scale"_a.noconvert(), "region"_a.noconvert(),
        "start"_a.noconvert(), "weight"_a.noconvert(), "coefficient"_a.noconvert().none(), "table"_a.noconvert().none(),
        "tables"_a.noconvert(), "threads"_a = 0,
        "sums[0, weight] += coefficient <b, table>, sums[1, weight] += scale[region] coefficient^2 Var_b(table), with "
        "table = tables[table], b = beliefs[start ...], term by term.");

    m.def(
        "free_apply",
        [](InOut<T> flat, In<double> w, Start start, Index base, Coefficient coefficient, int64_t entries,
           int threads) {
            const Free terms = free_view(start, base, coefficient, entries);
            nb::gil_scoped_release release;
            apply<T>(terms, view(w), view(flat), threads_or_default(threads));
        },
        "flat"_a.noconvert(), "w"_a.noconvert(), "start"_a.noconvert(), "base"_a.noconvert(),
        "coefficient"_a.noconvert().none(), "entries"_a, "threads"_a = 0,
        "flat[start + y] += w[base + y] coefficient, term by term; start must rise.");
    m.def(
        "free_moments",
        [](InOut<double> gradient, In<T> d, Start start, Index base, Coefficient coefficient, int64_t entries,
           int threads) {
            const Free terms = free_view(start, base, coefficient, entries);
            nb::gil_scoped_release release;
            moments<T>(terms, view(d), view(gradient), threads_or_default(threads));
        },
        "gradient"_a.noconvert(), "d"_a.noconvert(), "start"_a.noconvert(), "base"_a.noconvert(),
        "coefficient"_a.noconvert().none(), "entries"_a, "threads"_a = 0,
        "gradient[base + y] += coefficient d[start + y], term by term.");
    m.def(
        "free_statistics",
        [](InOut2 sums, In<T> beliefs, In<double> scale, Index region, Start start, Index base, Coefficient coefficient,
           int64_t entries, int threads) {
            const Free terms = free_view(start, base, coefficient, entries);
            const Vector<double> rows = two_rows(sums);
            expect_one_per_term("region", region.size(), terms.count);
            nb::gil_scoped_release release;
            statistics<T>(terms, view(beliefs), {region.data(), view(scale)}, rows, threads_or_default(threads));
        },
        "sums"_a.noconvert(), "beliefs"_a.noconvert(), "scale"_a.noconvert(), "region"_a.noconvert(),
        "start"_a.noconvert(), "base"_a.noconvert(), "coefficient"_a.noconvert().none(), "entries"_a, "threads"_a = 0,
        "sums[0, base + y] += coefficient b, sums[1, base + y] += scale[region] coefficient^2 b (1 - b), "
        "b = beliefs[start + y], term by term.");

    m.def(
        "rows_gather",
        [](In<T> flat, Start start, int64_t entries, int threads) {
            const auto count = static_cast<int64_t>(start.size());
            if (entries < 1) throw std::invalid_argument("expected at least one entry per row");
            auto rows = std::unique_ptr<double[]>(new double[static_cast<size_t>(count * entries)]);
            {
                nb::gil_scoped_release release;
                gather<T>(view(flat), start.data(), count, entries, rows.get(), threads_or_default(threads));
            }
            double* data = rows.release();
            nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
            return nb::ndarray<nb::numpy, double, nb::ndim<2>>(
                data, {static_cast<size_t>(count), static_cast<size_t>(entries)}, owner);
        },
        "flat"_a.noconvert(), "start"_a.noconvert(), "entries"_a, "threads"_a = 0,
        "rows[j, y] = flat[start[j] + y], float64 [n, entries].");
    m.def(
        "rows_scatter_add",
        [](InOut<T> flat, In<double, 2> rows, Start start, int threads) {
            const auto count = static_cast<int64_t>(start.size());
            expect_one_per_term("rows", rows.shape(0), count);
            nb::gil_scoped_release release;
            scatter_add<T>(rows.data(), start.data(), count, static_cast<int64_t>(rows.shape(1)), view(flat),
                           threads_or_default(threads));
        },
        "flat"_a.noconvert(), "rows"_a.noconvert(), "start"_a.noconvert(), "threads"_a = 0,
        "flat[start[j] + y] += rows[j, y]; start must rise.");
}

using Matrix = nb::ndarray<double, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

using Index = std::optional<In<int32_t>>;
using Starts = std::optional<In<int64_t>>;

// `rows` of the dense matrix that is read, or of the one that is written where that has one for each of the features.
FeatureRows feature_rows(const Starts& indptr, const Index& indices, const In<double>& data, int64_t rows,
                         int64_t columns) {
    FeatureRows features;
    features.rows = rows;
    features.columns = columns;
    features.data = data.data();
    const auto count = static_cast<int64_t>(data.size());
    bool fits = indptr.has_value() == indices.has_value();
    if (fits && indptr) {
        features.indptr = indptr->data();
        features.indices = indices->data();
        fits = static_cast<int64_t>(indptr->size()) == rows + 1 && static_cast<int64_t>(indices->size()) == count &&
               features.indptr[0] == 0;
        for (int64_t n = 0; fits && n < rows; ++n) fits = features.indptr[n] <= features.indptr[n + 1];
        for (int64_t k = 0; fits && k < count; ++k) fits = features.indices[k] >= 0 && features.indices[k] < columns;
    }
    if (!fits || features.entries() != count)
        throw std::invalid_argument("expected features in rows that fit the dense matrices");
    return features;
}

void expect_same_width(const In<double, 2>& dense, const Matrix& out) {
    if (dense.shape(1) % 8 != 0 || out.shape(1) != dense.shape(1))
        throw std::invalid_argument("expected dense matrices of one width, a multiple of 8");
}

void bind_products(nb::module_& m) {
    m.def(
        "features_product",
        [](Starts indptr, Index indices, In<double> data, In<double, 2> dense, Matrix out, int threads) {
            expect_same_width(dense, out);
            const FeatureRows features = feature_rows(indptr, indices, data, out.shape(0), dense.shape(0));
            nb::gil_scoped_release release;
            multiply(features, dense.data(), dense.shape(1), out.data(), threads_or_default(threads));
        },
        "indptr"_a.noconvert().none(), "indices"_a.noconvert().none(), "data"_a.noconvert(), "dense"_a.noconvert(),
        "out"_a.noconvert(), "threads"_a = 0,
        "out [N, W] = X [N, F] dense [F, W], X in compressed rows or whole, W a multiple of 8.");
    m.def(
        "features_transposed_product",
        [](Starts indptr, Index indices, In<double> data, bool squared, In<double, 2> dense, Matrix out, int threads) {
            expect_same_width(dense, out);
            const FeatureRows features = feature_rows(indptr, indices, data, dense.shape(0), out.shape(0));
            nb::gil_scoped_release release;
            multiply_transposed(features, squared, dense.data(), dense.shape(1), out.data(),
                                threads_or_default(threads));
        },
        "indptr"_a.noconvert().none(), "indices"_a.noconvert().none(), "data"_a.noconvert(), "squared"_a,
        "dense"_a.noconvert(), "out"_a.noconvert(), "threads"_a = 0,
        "out [F, W] = X^T dense [N, W], X [N, F] (or its squares) in compressed rows or whole, W a multiple of 8.");
}

}  // namespace

void bind_features(nb::module_& m) {
    bind_products(m);
    bind_terms<double>(m);
    bind_terms<float>(m);
}

}  // namespace blendfield
