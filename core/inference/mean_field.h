// Mean field: coordinate ascent over products of distributions q(y) = prod_i q_i(y_i),
//
//     F(q) = sum_r <q_r, theta_r> + eps sum_i H(q_i) <= eps log sum_y exp(score(y) / eps),    q_r = prod_{i in r} q_i
//     q_i = argmax F = softmax(m_i / eps),    m_i(y_i) = sum_{r with i} E_{q_{r \ i}}[theta_r(y_i, .)]
//
// At eps = 0 the best label, the present one if it is among the best (iterated conditional modes). Forbidden entries
// come first: only labels with the least probability of a forbidden entry are considered.
#pragma once
#include <cstdint>
#include <vector>

#include "inference/regions.h"

namespace blendfield {

template <class T>
class MeanField {
  public:
    // `arrays` and `tables`, [table_offsets[R]], must outlive this. `classes` [V]: variables of a class share no
    // region and are updated at the same time. `models` [V]: the model of each variable, `count` in all.
    MeanField(const RegionArrays& arrays, const T* tables, double epsilon, const int32_t* classes,
              const int32_t* models, int64_t count, int threads);

    int64_t size() const { return labels_.back(); }
    void set(const double* q);  // [sum of cardinalities], variable after variable
    const std::vector<double>& distributions() const { return q_; }
    // Updates every variable of the `active` models [count] once; per model the largest change of a probability.
    std::vector<double> sweep(const uint8_t* active);
    // Per model F(q), the forbidden mass left out, and that mass: sum over regions of the probability of a forbidden
    // entry.
    std::vector<double> value(std::vector<double>& forbidden) const;
    void beliefs(T* out) const;  // q_r of every region, [table_offsets[R]]

  private:
    double update(int64_t variable, std::vector<double>& work);
    void add_expectation(int64_t region, int64_t variable, double* sums, double* forbidden) const;
    double region_value(int64_t region, double* forbidden) const;
    template <class F>
    void for_rows(int64_t region, int skipped, F f) const;

    RegionArrays arrays_;
    const T* tables_;
    double epsilon_;
    int threads_;
    int64_t models_count_;
    std::vector<int32_t> models_;
    RegionsOfVariable incidence_;
    std::vector<int64_t> labels_;  // [V + 1] where the labels of a variable begin
    std::vector<std::vector<int32_t>> classes_;
    std::vector<int64_t> cost_;  // [V] table entries read by an update
    std::vector<uint8_t> hard_;  // [R] some entry is forbidden
    std::vector<double> q_, change_;
};

extern template class MeanField<double>;
extern template class MeanField<float>;

}  // namespace blendfield
