// Features of a model, block by block: from weights to potentials, and from beliefs back to gradients.
//
// All tables are flat: region after region (layout "tables" of blendfield/backends/protocol.py). A block has n terms;
// term j adds something to the table that begins at start[j]. Several terms may name the same table. T, the type of the
// flat tables, is float or double; sums over terms are float64 and run in an order that does not depend on the threads.
#pragma once
#include <cstdint>

namespace blendfield::features {

// Terms with given tables: term j is  weight * coefficient * table  on all Y entries of its region.
struct Terms {
    int64_t count = 0;                    // n
    const int64_t* start = nullptr;       // [n], rising
    const int32_t* weight = nullptr;      // [n]
    const double* coefficient = nullptr;  // [n], null: 1
    const int32_t* table = nullptr;       // [n] rows of `tables`, null: row 0 of one, or row j of n
    const double* tables = nullptr;       // [rows, Y]
    int64_t rows = 0, entries = 0;        // entries = Y
};

// Terms with a weight for each entry: entry y of term j is  weight(base[j] + y) * coefficient.
struct Free {
    int64_t count = 0;
    const int64_t* start = nullptr;       // [n], rising
    const int32_t* base = nullptr;        // [n]
    const double* coefficient = nullptr;  // [n], null: 1
    int64_t entries = 0;
};

// An array and its length; positions outside it are refused by std::invalid_argument.
template <class T>
struct Vector {
    T* data;
    int64_t size;
};

// flat[start_j + y] += w[weight_j] coefficient_j tables[table_j, y]
template <class T>
void apply(const Terms& terms, Vector<const double> w, Vector<T> flat, int threads);
// flat[start_j + y] += w[base_j + y] coefficient_j
template <class T>
void apply(const Free& terms, Vector<const double> w, Vector<T> flat, int threads);

// gradient[weight_j] += coefficient_j sum_y d[start_j + y] tables[table_j, y]
template <class T>
void moments(const Terms& terms, Vector<const T> d, Vector<double> gradient, int threads);
// gradient[base_j + y] += coefficient_j d[start_j + y]
template <class T>
void moments(const Free& terms, Vector<const T> d, Vector<double> gradient, int threads);

// A factor for each term, found by its region.
struct Scale {
    const int32_t* region;        // [n]
    Vector<const double> values;  // [regions]
    double of(int64_t j) const { return values.data[region[j]]; }
};

// Moments and variances in one pass, into two rows [2, K]; b = beliefs[start_j ...]:
// sums[0, weight_j] += coefficient_j sum_y b[y] tables[table_j, y]
// sums[1, weight_j] += scale_j coefficient_j^2 Var_b(tables[table_j])
template <class T>
void statistics(const Terms& terms, Vector<const T> beliefs, Scale scale, Vector<double> sums, int threads);
// sums[0, base_j + y] += coefficient_j b[y],    sums[1, base_j + y] += scale_j coefficient_j^2 b[y] (1 - b[y])
template <class T>
void statistics(const Free& terms, Vector<const T> beliefs, Scale scale, Vector<double> sums, int threads);

// rows[j, y] = flat[start_j + y]: tables of the same size side by side, rows [n, Y].
template <class T>
void gather(Vector<const T> flat, const int64_t* start, int64_t count, int64_t entries, double* rows, int threads);
// flat[start_j + y] += rows[j, y], start rising.
template <class T>
void scatter_add(const double* rows, const int64_t* start, int64_t count, int64_t entries, Vector<T> flat, int threads);

}  // namespace blendfield::features
