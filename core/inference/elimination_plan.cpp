// What elimination does before any arithmetic: domains, order, scopes, what runs in parallel, memory.
#include <algorithm>
#include <cmath>

#include "cpu/thread_pool.h"
#include "inference/elimination.h"

namespace blendfield {

namespace {

constexpr int64_t row_entries = 16384;  // of all labels' rows, which stay in the cache
constexpr double most_entries = 1e15;   // of anything that is ever allocated

}  // namespace

Elimination::Elimination(const RegionArrays& arrays, const double* tables, const int32_t* models, int64_t count,
                         double epsilon, int threads)
    : arrays_(arrays),
      tables_(tables),
      models_(models),
      models_count_(count),
      epsilon_(epsilon),
      threads_(threads > 0 ? threads : default_threads()),
      kernels_(elimination_kernels()) {
    find_domains();
    if (empty_region_ < 0) make_scopes();
}

// Labels that no entry supports are dropped, until nothing changes any more.
void Elimination::find_domains() {
    const int64_t variables = arrays_.variables;
    label_start_.assign(variables + 1, 0);
    for (int64_t v = 0; v < variables; ++v) label_start_[v + 1] = label_start_[v] + arrays_.cardinalities[v];
    allowed_.assign(label_start_[variables], 1);
    std::vector<uint8_t> waiting(arrays_.regions, 0);
    parallel_for(
        threads_, arrays_.regions, arrays_.table_offsets[arrays_.regions], [&](int64_t begin, int64_t end, int) {
            for (int64_t r = begin; r < end; ++r)
                waiting[r] = std::any_of(tables_ + arrays_.table_offsets[r], tables_ + arrays_.table_offsets[r + 1],
                                         [](double x) { return std::isinf(x); });
        });
    const std::vector<uint8_t> hard = waiting;
    std::vector<int32_t> queue;
    for (int order = 1; order <= 32; ++order)  // small regions first: what they say spares work on large ones
        for (int64_t r = 0; r < arrays_.regions; ++r)
            if (hard[r] && arrays_.order(r) == order) queue.push_back(static_cast<int32_t>(r));
    if (!queue.empty()) {
        const RegionsOfVariable incidence = arrays_.regions_of_variable();
        std::vector<uint8_t> seen;
        for (size_t head = 0; head < queue.size(); ++head) {
            const int32_t r = queue[head];
            waiting[r] = 0;
            const int order = arrays_.order(r);
            const int32_t* scope = arrays_.scope(r);
            int64_t start[33] = {0};
            for (int a = 0; a < order; ++a) start[a + 1] = start[a] + arrays_.cardinalities[scope[a]];
            seen.assign(start[order], 0);
            int digit[32] = {};
            int barred = 0;  // axes whose present label is forbidden
            for (int a = 0; a < order; ++a) barred += !allowed_[label_start_[scope[a]]];
            const double* table = tables_ + arrays_.table_offsets[r];
            const int64_t size = arrays_.table_offsets[r + 1] - arrays_.table_offsets[r];
            for (int64_t e = 0; e < size; ++e) {
                if (barred == 0 && !std::isinf(table[e]))
                    for (int a = 0; a < order; ++a) seen[start[a] + digit[a]] = 1;
                for (int a = order - 1; a >= 0; --a) {
                    const uint8_t* allowed = allowed_.data() + label_start_[scope[a]];
                    barred -= !allowed[digit[a]];
                    const bool more = ++digit[a] < arrays_.cardinalities[scope[a]];
                    if (!more) digit[a] = 0;
                    barred += !allowed[digit[a]];
                    if (more) break;
                }
            }
            for (int a = 0; a < order; ++a) {
                uint8_t* allowed = allowed_.data() + label_start_[scope[a]];
                bool fewer = false, any = false;
                for (int y = 0; y < arrays_.cardinalities[scope[a]]; ++y) {
                    fewer |= allowed[y] && !seen[start[a] + y];
                    allowed[y] &= seen[start[a] + y];
                    any |= allowed[y];
                }
                if (!any) {
                    empty_region_ = r;
                    return;
                }
                if (!fewer) continue;
                for (int64_t k = incidence.start[scope[a]]; k < incidence.start[scope[a] + 1]; ++k) {
                    const int32_t other = incidence.region[k];
                    if (other == r || !hard[other] || waiting[other]) continue;
                    waiting[other] = 1;
                    queue.push_back(other);
                }
            }
            if (head >= (size_t{1} << 20) && 2 * head > queue.size()) {
                queue.erase(queue.begin(), queue.begin() + static_cast<int64_t>(head) + 1);
                head = static_cast<size_t>(-1);
            }
        }
    }
    domain_start_.assign(variables + 1, 0);
    for (int64_t v = 0; v < variables; ++v) {
        for (int y = 0; y < arrays_.cardinalities[v]; ++y)
            if (allowed_[label_start_[v] + y]) domain_.push_back(y);
        domain_start_[v + 1] = static_cast<int64_t>(domain_.size());
    }
}

// The order, and with it the scopes of everything, in ranks: the position in the order.
void Elimination::make_scopes() {
    const int64_t variables = arrays_.variables;
    std::vector<int32_t> active, place(variables, -1);
    std::vector<double> labels;
    for (int64_t v = 0; v < variables; ++v) {
        const int64_t count = domain_start_[v + 1] - domain_start_[v];
        if (count < 2) continue;
        place[v] = static_cast<int32_t>(active.size());
        active.push_back(static_cast<int32_t>(v));
        labels.push_back(static_cast<double>(count));
    }
    std::vector<std::vector<int32_t>> neighbours(active.size());
    for (int64_t r = 0; r < arrays_.regions; ++r) {
        const int32_t* scope = arrays_.scope(r);
        for (int a = 0; a < arrays_.order(r); ++a)
            for (int b = 0; b < arrays_.order(r); ++b)
                if (a != b && place[scope[a]] >= 0 && place[scope[b]] >= 0)
                    neighbours[place[scope[a]]].push_back(place[scope[b]]);
    }
    for (std::vector<int32_t>& around : neighbours) {
        std::sort(around.begin(), around.end());
        around.erase(std::unique(around.begin(), around.end()), around.end());
    }
    order_ = elimination_order(std::move(neighbours), labels);
    if (order_.largest > most_entries || order_.separators > most_entries) return;
    fits_ = true;

    const auto n = static_cast<int32_t>(active.size());
    rank_.assign(variables, -1);
    variable_at_.resize(n);
    extent_.resize(n);
    std::vector<int32_t> rank_of_active(n);
    for (int32_t k = 0; k < n; ++k) {
        variable_at_[k] = active[order_.order[k]];
        rank_[variable_at_[k]] = rank_of_active[order_.order[k]] = k;
        extent_[k] = static_cast<int32_t>(labels[order_.order[k]]);
    }
    for (int32_t& variable : order_.scopes) variable = rank_of_active[variable];
    for (int32_t k = 0; k < n; ++k)
        std::sort(order_.scopes.begin() + order_.scope_offsets[k], order_.scopes.begin() + order_.scope_offsets[k + 1]);

    region_scope_start_.assign(arrays_.regions + 1, 0);
    compact_start_.assign(arrays_.regions + 1, 0);
    std::vector<int64_t> count(n + 1, 0);
    for (int64_t r = 0; r < arrays_.regions; ++r) {
        int64_t size = 1;
        for (int a = 0; a < arrays_.order(r); ++a) {
            const int32_t k = rank_[arrays_.scope(r)[a]];
            if (k < 0) continue;
            region_scope_.push_back(k);
            size *= extent_[k];
        }
        region_scope_start_[r + 1] = static_cast<int64_t>(region_scope_.size());
        std::sort(region_scope_.begin() + region_scope_start_[r], region_scope_.end());
        compact_start_[r + 1] = compact_start_[r] + size;
        if (region_scope_start_[r + 1] > region_scope_start_[r]) ++count[region_scope_[region_scope_start_[r]] + 1];
    }
    // Buckets: the regions whose first variable it is, then the children.
    separator_start_.assign(n + 1, 0);
    for (int32_t k = 0; k < n; ++k) {
        int64_t size = order_.scope_offsets[k] == order_.scope_offsets[k + 1] ? 0 : 1;
        for (int64_t e = order_.scope_offsets[k]; e < order_.scope_offsets[k + 1]; ++e)
            size *= extent_[order_.scopes[e]];
        separator_start_[k + 1] = separator_start_[k] + size;
        if (size > 0) ++count[order_.scopes[order_.scope_offsets[k]] + 1];
    }
    term_start_.assign(n + 1, 0);
    for (int32_t k = 0; k < n; ++k) term_start_[k + 1] = term_start_[k] + count[k + 1];
    terms_.resize(term_start_[n]);
    std::vector<int64_t> fill(term_start_.begin(), term_start_.end() - 1);
    for (int64_t r = 0; r < arrays_.regions; ++r)
        if (region_scope_start_[r + 1] > region_scope_start_[r])
            terms_[fill[region_scope_[region_scope_start_[r]]]++] = {static_cast<int32_t>(r), false};
    std::vector<int32_t> height(n, 0), depth(n, 0);
    for (int32_t k = 0; k < n; ++k) {
        if (separator_start_[k + 1] == separator_start_[k]) continue;
        const int32_t parent = order_.scopes[order_.scope_offsets[k]];
        terms_[fill[parent]++] = {k, true};
        height[parent] = std::max(height[parent], height[k] + 1);
    }
    for (int32_t k = n - 1; k >= 0; --k)
        if (separator_start_[k + 1] > separator_start_[k]) depth[k] = depth[order_.scopes[order_.scope_offsets[k]]] + 1;
    up_jobs_ = make_jobs(height, up_buckets_);
    down_jobs_ = make_jobs(depth, down_buckets_);
    Plan plan;
    for (const Job& job : down_jobs_)
        for (int64_t b = job.begin; b < job.end; ++b) {
            if (!job.large && separator_start_[down_buckets_[b] + 1] - separator_start_[down_buckets_[b]] < 4096)
                continue;
            lay_out(down_buckets_[b], plan, true);
            most_sums_ = std::max(most_sums_, static_cast<double>(sums_needed(plan)));
        }
}

std::vector<Elimination::Job> Elimination::make_jobs(const std::vector<int32_t>& level,
                                                     std::vector<int32_t>& buckets) const {
    const auto n = static_cast<int32_t>(level.size());
    buckets.resize(n);
    const int32_t levels = n ? *std::max_element(level.begin(), level.end()) + 1 : 0;
    std::vector<int64_t> start(levels + 1, 0);
    for (int32_t l : level) ++start[l + 1];
    for (int32_t l = 0; l < levels; ++l) start[l + 1] += start[l];
    std::vector<int64_t> fill(start.begin(), start.end() - 1);
    for (int32_t k = 0; k < n; ++k) buckets[fill[level[k]]++] = k;
    std::vector<Job> jobs;
    for (int32_t l = 0; l < levels; ++l) {
        const auto entries = [&](int64_t b) {
            const int32_t k = buckets[b];
            return static_cast<double>(std::max<int64_t>(1, separator_start_[k + 1] - separator_start_[k])) *
                   extent_[k];
        };
        int64_t small = start[l];
        double work = 0;
        for (int64_t b = start[l]; b <= start[l + 1]; ++b) {
            const bool large = b < start[l + 1] && entries(b) >= large_entries;
            if (b < start[l + 1] && !large) work += entries(b);
            if ((large || b == start[l + 1]) && small < b) jobs.push_back({small, b, false, work});
            if (!large) continue;
            jobs.push_back({b, b + 1, true, entries(b)});
            small = b + 1;
            work = 0;
        }
    }
    return jobs;
}

double Elimination::bytes() const {
    const double arrays = epsilon_ > 0 ? 1 : 2;
    if (!fits_) return 8 * (arrays * order_.separators + order_.largest);
    const auto n = static_cast<double>(extent_.size());
    return 8 * (arrays * order_.separators + most_sums_ + static_cast<double>(compact_start_.back())) +
           4 * static_cast<double>(order_.scopes.size() + region_scope_.size()) +
           8 * static_cast<double>(terms_.size()) + 100 * n;
}

int64_t Elimination::rows_stride(int labels, int64_t inner) const {
    const int64_t width = std::clamp<int64_t>(row_entries / labels, 64, inner_entries);
    return (std::min(width, inner) + 7) / 8 * 8;
}

void Elimination::load() {
    compact_.reset(compact_start_.back());
    zero_.assign(arrays_.regions, 1);
    const double scale = epsilon_ > 0 ? epsilon_ : 1.0;
    parallel_for(threads_, arrays_.regions, arrays_.table_offsets[arrays_.regions],
                 [&](int64_t begin, int64_t end, int) {
                     for (int64_t r = begin; r < end; ++r) {
                         const int32_t* scope = arrays_.scope(r);
                         const int order = arrays_.order(r);
                         // The user's axes in the order of the ranks; those with one label give an offset.
                         int64_t stride[32], offset = 0, step = 1;
                         for (int a = order - 1; a >= 0; --a) {
                             stride[a] = step;
                             step *= arrays_.cardinalities[scope[a]];
                             if (rank_[scope[a]] < 0) offset += stride[a] * domain_[domain_start_[scope[a]]];
                         }
                         const int64_t first = region_scope_start_[r];
                         const int axes = static_cast<int>(region_scope_start_[r + 1] - first);
                         int64_t own[32];
                         const int32_t* labels[32];
                         int extents[32], digit[32] = {};
                         int64_t position = offset;
                         for (int a = 0; a < axes; ++a) {
                             const int32_t variable = variable_at_[region_scope_[first + a]];
                             own[a] = stride[std::find(scope, scope + order, variable) - scope];
                             labels[a] = domain_.data() + domain_start_[variable];
                             extents[a] = extent_[region_scope_[first + a]];
                             position += own[a] * labels[a][0];
                         }
                         const double* table = tables_ + arrays_.table_offsets[r];
                         double* out = compact_.data() + compact_start_[r];
                         bool zero = true;
                         for (int64_t e = 0; e < compact_start_[r + 1] - compact_start_[r]; ++e) {
                             out[e] = table[position] / scale;
                             zero &= out[e] == 0;
                             for (int a = axes - 1; a >= 0; --a) {
                                 position -= own[a] * labels[a][digit[a]];
                                 const bool more = ++digit[a] < extents[a];
                                 if (!more) digit[a] = 0;
                                 position += own[a] * labels[a][digit[a]];
                                 if (more) break;
                             }
                         }
                         zero_[r] = zero;
                     }
                 });
    separators_.reset(separator_start_.back());
    if (!(epsilon_ > 0)) weights_.reset(separator_start_.back());
    constant_.assign(extent_.size(), 0.0);
    scratch_.resize(threads_);
}

}  // namespace blendfield
