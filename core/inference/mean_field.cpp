#include "inference/mean_field.h"

#include <algorithm>
#include <cmath>

#include "cpu/thread_pool.h"

namespace blendfield {

namespace {

constexpr double rounding = 1e-9;  // forbidden masses are the same within this share

// sum of row[y] q[y], in four strands so that the additions do not wait for each other.
template <class T>
double dot(const T* row, const double* q, int count) {
    double s[4] = {0, 0, 0, 0};
    int y = 0;
    for (; y + 4 <= count; y += 4)
        for (int k = 0; k < 4; ++k) s[k] += static_cast<double>(row[y + k]) * q[y + k];
    for (; y < count; ++y) s[0] += static_cast<double>(row[y]) * q[y];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

// The same where entries may be forbidden: their probability goes to `forbidden`.
template <class T>
double hard_dot(const T* row, const double* q, int count, double& forbidden) {
    double sum = 0;
    for (int y = 0; y < count; ++y) {
        if (q[y] == 0) continue;
        if (std::isinf(row[y]))
            forbidden += q[y];
        else
            sum += static_cast<double>(row[y]) * q[y];
    }
    return sum;
}

}  // namespace

template <class T>
MeanField<T>::MeanField(const RegionArrays& arrays, const T* tables, double epsilon, const int32_t* classes,
                        const int32_t* models, int64_t count, int threads)
    : arrays_(arrays),
      tables_(tables),
      epsilon_(epsilon),
      threads_(threads > 0 ? threads : default_threads()),
      models_count_(count),
      models_(models, models + arrays.variables),
      incidence_(arrays.regions_of_variable()),
      labels_(arrays.variables + 1, 0),
      cost_(arrays.variables, 0),
      hard_(arrays.regions, 0),
      change_(arrays.variables, 0.0) {
    for (int64_t v = 0; v < arrays.variables; ++v) {
        labels_[v + 1] = labels_[v] + arrays.cardinalities[v];
        if (classes[v] >= static_cast<int32_t>(classes_.size())) classes_.resize(classes[v] + 1);
        classes_[classes[v]].push_back(static_cast<int32_t>(v));
        cost_[v] = 8 * arrays.cardinalities[v];
        for (int64_t k = incidence_.start[v]; k < incidence_.start[v + 1]; ++k) {
            const int32_t r = incidence_.region[k];
            cost_[v] += arrays.table_offsets[r + 1] - arrays.table_offsets[r];
        }
    }
    q_.resize(labels_.back());
    for (int64_t v = 0; v < arrays.variables; ++v)
        std::fill_n(q_.data() + labels_[v], arrays.cardinalities[v], 1.0 / arrays.cardinalities[v]);
    parallel_for(threads_, arrays.regions, arrays.table_offsets[arrays.regions], [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r)
            hard_[r] = std::any_of(tables_ + arrays_.table_offsets[r], tables_ + arrays_.table_offsets[r + 1],
                                   [](T x) { return std::isinf(x); });
    });
}

template <class T>
void MeanField<T>::set(const double* q) {
    std::copy_n(q, q_.size(), q_.begin());
}

// Calls f(row, weight, label) for the rows (last axis) of a table: `weight` is the probability of the labels of all
// axes before the last, but for axis `skipped`, whose label is `label`. Rows of weight 0 are passed over.
template <class T>
template <class F>
void MeanField<T>::for_rows(int64_t region, int skipped, F f) const {
    const int32_t* scope = arrays_.scope(region);
    const int outer = arrays_.order(region) - 1;
    const int64_t last = arrays_.cardinalities[scope[outer]];
    const T* row = tables_ + arrays_.table_offsets[region];
    int digit[32] = {};
    double weight[33];  // product over the axes before
    weight[0] = 1;
    int from = 0;  // first axis whose label is new
    for (;;) {
        for (; from < outer; ++from)
            weight[from + 1] = from == skipped ? weight[from] : weight[from] * q_[labels_[scope[from]] + digit[from]];
        if (weight[outer] != 0) f(row, weight[outer], skipped >= 0 && skipped < outer ? digit[skipped] : 0);
        row += last;
        int a = outer - 1;
        for (; a >= 0; --a) {
            if (++digit[a] < arrays_.cardinalities[scope[a]]) break;
            digit[a] = 0;
        }
        if (a < 0) return;
        from = a;
    }
}

template <class T>
void MeanField<T>::add_expectation(int64_t region, int64_t variable, double* sums, double* forbidden) const {
    const int32_t* scope = arrays_.scope(region);
    const int order = arrays_.order(region), last = arrays_.cardinalities[scope[order - 1]];
    const int axis = static_cast<int>(std::find(scope, scope + order, variable) - scope);
    const double* q_last = q_.data() + labels_[scope[order - 1]];
    if (axis == order - 1) {
        for_rows(region, axis, [&](const T* row, double weight, int) {
            if (!hard_[region])
                for (int y = 0; y < last; ++y) sums[y] += weight * static_cast<double>(row[y]);
            else
                for (int y = 0; y < last; ++y)
                    std::isinf(row[y]) ? forbidden[y] += weight : sums[y] += weight * static_cast<double>(row[y]);
        });
        return;
    }
    for_rows(region, axis, [&](const T* row, double weight, int y) {
        if (!hard_[region]) {
            sums[y] += weight * dot(row, q_last, last);
            return;
        }
        double mass = 0;
        sums[y] += weight * hard_dot(row, q_last, last, mass);
        forbidden[y] += weight * mass;
    });
}

template <class T>
double MeanField<T>::update(int64_t variable, std::vector<double>& work) {
    const int count = arrays_.cardinalities[variable];
    work.assign(2 * count, 0.0);
    double *sums = work.data(), *forbidden = sums + count;
    for (int64_t k = incidence_.start[variable]; k < incidence_.start[variable + 1]; ++k)
        add_expectation(incidence_.region[k], variable, sums, forbidden);
    // Nothing but 0 is as good as 0: F is -inf otherwise.
    const double least = *std::min_element(forbidden, forbidden + count) * (1 + rounding);
    double* q = q_.data() + labels_[variable];
    double best = -HUGE_VAL, change = 0;
    for (int y = 0; y < count; ++y)
        if (forbidden[y] <= least) best = std::max(best, sums[y]);
    if (epsilon_ > 0) {
        double total = 0;
        for (int y = 0; y < count; ++y) {
            sums[y] = forbidden[y] <= least ? std::exp((sums[y] - best) / epsilon_) : 0.0;
            total += sums[y];
        }
        for (int y = 0; y < count; ++y) sums[y] /= total;
    } else {
        const int now = static_cast<int>(std::max_element(q, q + count) - q);
        const auto among_best = [&](int y) { return forbidden[y] <= least && sums[y] == best; };
        int chosen = now;
        if (q[now] != 1.0 || !among_best(now))
            for (chosen = 0; !among_best(chosen);) ++chosen;
        for (int y = 0; y < count; ++y) sums[y] = y == chosen;
    }
    for (int y = 0; y < count; ++y) change = std::max(change, std::abs(sums[y] - q[y]));
    std::copy_n(sums, count, q);
    return change;
}

template <class T>
std::vector<double> MeanField<T>::sweep(const uint8_t* active) {
    std::vector<std::vector<double>> work(threads_);
    for (const std::vector<int32_t>& members : classes_) {
        int64_t cost = 0;
        for (int32_t v : members)
            if (active[models_[v]]) cost += cost_[v];
        parallel_for(threads_, static_cast<int64_t>(members.size()), cost, [&](int64_t begin, int64_t end, int thread) {
            for (int64_t k = begin; k < end; ++k)
                if (active[models_[members[k]]]) change_[members[k]] = update(members[k], work[thread]);
        });
    }
    std::vector<double> largest(models_count_, 0.0);
    for (int64_t v = 0; v < arrays_.variables; ++v)
        if (active[models_[v]]) largest[models_[v]] = std::max(largest[models_[v]], change_[v]);
    return largest;
}

template <class T>
double MeanField<T>::region_value(int64_t region, double* forbidden) const {
    const int32_t last = arrays_.scope(region)[arrays_.order(region) - 1];
    const double* q_last = q_.data() + labels_[last];
    double sum = 0;
    for_rows(region, -1, [&](const T* row, double weight, int) {
        double mass = 0;
        sum += weight * (hard_[region] ? hard_dot(row, q_last, arrays_.cardinalities[last], mass)
                                       : dot(row, q_last, arrays_.cardinalities[last]));
        *forbidden += weight * mass;
    });
    return sum;
}

template <class T>
std::vector<double> MeanField<T>::value(std::vector<double>& forbidden) const {
    std::vector<double> terms(arrays_.regions), masses(arrays_.regions, 0.0);
    parallel_for(threads_, arrays_.regions, arrays_.table_offsets[arrays_.regions],
                 [&](int64_t begin, int64_t end, int) {
                     for (int64_t r = begin; r < end; ++r) terms[r] = region_value(r, &masses[r]);
                 });
    std::vector<double> sums(models_count_, 0.0);
    forbidden.assign(models_count_, 0.0);
    for (int64_t r = 0; r < arrays_.regions; ++r) {
        const int32_t model = models_[arrays_.scope(r)[0]];
        sums[model] += terms[r];
        forbidden[model] += masses[r];
    }
    if (epsilon_ > 0)
        for (int64_t v = 0; v < arrays_.variables; ++v)
            for (int64_t k = labels_[v]; k < labels_[v + 1]; ++k)
                if (q_[k] > 0) sums[models_[v]] -= epsilon_ * q_[k] * std::log(q_[k]);
    return sums;
}

template <class T>
void MeanField<T>::beliefs(T* out) const {
    parallel_for(threads_, arrays_.regions, arrays_.table_offsets[arrays_.regions],
                 [&](int64_t begin, int64_t end, int) {
                     for (int64_t r = begin; r < end; ++r) {
                         const int32_t* scope = arrays_.scope(r);
                         // Grown from the last entry backwards, so that one array is enough.
                         T* table = out + arrays_.table_offsets[r];
                         int64_t size = 1;
                         table[0] = T(1);
                         for (int a = 0; a < arrays_.order(r); ++a) {
                             const int64_t count = arrays_.cardinalities[scope[a]];
                             const double* q = q_.data() + labels_[scope[a]];
                             for (int64_t e = size - 1; e >= 0; --e) {
                                 const double before = static_cast<double>(table[e]);
                                 for (int64_t y = count - 1; y >= 0; --y)
                                     table[e * count + y] = static_cast<T>(before * q[y]);
                             }
                             size *= count;
                         }
                     }
                 });
}

template class MeanField<double>;
template class MeanField<float>;

}  // namespace blendfield
