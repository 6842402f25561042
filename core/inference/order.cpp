#include "inference/order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

namespace blendfield {

namespace {

using Neighbours = std::vector<std::vector<int32_t>>;

enum class Rule { fill, weight, weighted_fill, degree };

constexpr double most_entries = 1e300;  // larger products are as good as infinite
constexpr double work_share = 0.1;      // of the elimination's own work that may be spent on random orders
constexpr int64_t least_work = 200'000, most_work = 2'000'000'000;
constexpr int random_orders = 40;

uint64_t scrambled(uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// One greedy elimination of one connected component.
class Greedy {
  public:
    Greedy(Neighbours neighbours, const std::vector<double>& labels, Rule rule, uint64_t seed)
        : neighbours_(std::move(neighbours)),
          labels_(labels),
          rule_(rule),
          seed_(seed),
          marked_(labels.size(), 0),
          version_(labels.size(), 0),
          gone_(labels.size(), 0) {}

    // Nothing when the tables would have `enough` entries, or when it would take more than `budget` steps.
    std::optional<EliminationOrder> run(double enough, int64_t budget) {
        const auto n = static_cast<int32_t>(labels_.size());
        EliminationOrder out;
        out.order.reserve(n);
        out.scope_offsets.assign(1, 0);
        for (int32_t v = 0; v < n; ++v) push(v);
        while (!queue_.empty()) {
            const Key key = queue_.top();
            queue_.pop();
            const int32_t v = key.variable;
            if (gone_[v] || key.version != version_[v]) continue;
            const std::vector<int32_t> scope = std::move(neighbours_[v]);
            double separator = 1;
            for (int32_t a : scope) separator = std::min(most_entries, separator * labels_[a]);
            const double entries = separator * labels_[v];
            out.order.push_back(v);
            out.scopes.insert(out.scopes.end(), scope.begin(), scope.end());
            out.scope_offsets.push_back(static_cast<int64_t>(out.scopes.size()));
            out.entries += entries;
            out.separators += scope.empty() ? 0 : separator;
            out.largest = std::max(out.largest, entries);
            out.width = std::max(out.width, static_cast<int>(scope.size()));
            if (out.entries >= enough || work > budget) return std::nullopt;
            remove(v, scope);
        }
        return out;
    }
    int64_t work = 0;  // steps so far, about a nanosecond each

  private:
    struct Key {
        double first, second;
        uint64_t tie;
        int32_t variable;
        uint32_t version;
        bool operator<(const Key& other) const {  // the queue's top is the largest
            return std::tie(first, second, tie, variable) >
                   std::tie(other.first, other.second, other.tie, other.variable);
        }
    };

    void push(int32_t v) {
        const double weight = weight_of(v);
        double first = 0, second = weight;
        switch (rule_) {
            case Rule::fill:
                first = fill_of(v, false);
                break;
            case Rule::weighted_fill:
                first = fill_of(v, true);
                break;
            case Rule::weight:
                first = weight;
                second = static_cast<double>(neighbours_[v].size());
                break;
            case Rule::degree:
                first = static_cast<double>(neighbours_[v].size());
                break;
        }
        const uint64_t tie = seed_ ? scrambled(seed_ ^ scrambled(static_cast<uint64_t>(v))) : 0;
        queue_.push({first, second, tie, v, version_[v]});
    }

    // log of the entries of v's table.
    double weight_of(int32_t v) {
        double sum = std::log(labels_[v]);
        for (int32_t a : neighbours_[v]) sum += std::log(labels_[a]);
        work += 4 * static_cast<int64_t>(neighbours_[v].size());
        return sum;
    }

    // Pairs of neighbours of v that are no neighbours, each counted once or as the product of their label counts.
    double fill_of(int32_t v, bool weighted) {
        const std::vector<int32_t>& around = neighbours_[v];
        for (int32_t a : around) marked_[a] = 1;
        double missing = 0;
        if (weighted) {
            double all = 0;
            for (int32_t a : around) all += labels_[a];
            for (int32_t a : around) {
                double there = labels_[a];
                for (int32_t b : neighbours_[a]) there += marked_[b] * labels_[b];
                missing += labels_[a] * (all - there);
                work += static_cast<int64_t>(neighbours_[a].size());
            }
        } else {
            for (int32_t a : around) {
                int64_t there = 1;
                for (int32_t b : neighbours_[a]) there += marked_[b];
                missing += static_cast<double>(static_cast<int64_t>(around.size()) - there);
                work += static_cast<int64_t>(neighbours_[a].size());
            }
        }
        for (int32_t a : around) marked_[a] = 0;
        return missing / 2;
    }

    void remove(int32_t v, const std::vector<int32_t>& scope) {
        gone_[v] = 1;
        const bool fill = rule_ == Rule::fill || rule_ == Rule::weighted_fill;
        touched_.clear();
        bool linked = false;  // new neighbours were made
        for (int32_t a : scope) {
            std::vector<int32_t>& around = neighbours_[a];
            const size_t before = around.size();
            joined_.clear();
            std::set_union(around.begin(), around.end(), scope.begin(), scope.end(), std::back_inserter(joined_));
            std::erase_if(joined_, [&](int32_t b) { return b == a || b == v; });
            work += static_cast<int64_t>(joined_.size() + before);
            linked |= joined_.size() >= before;
            around.assign(joined_.begin(), joined_.end());
            touched_.push_back(a);
        }
        // A pair that became neighbours is missing no more around those who have both.
        if (fill && linked) {
            for (int32_t a : scope) marked_[a] = 1;
            for (int32_t a : scope)
                for (int32_t b : neighbours_[a]) {
                    ++work;
                    if (!marked_[b]) {
                        marked_[b] = 1;
                        touched_.push_back(b);
                    }
                }
            for (int32_t a : touched_) marked_[a] = 0;
        }
        for (int32_t a : touched_) {
            ++version_[a];
            push(a);
        }
    }

    Neighbours neighbours_;
    const std::vector<double>& labels_;
    Rule rule_;
    uint64_t seed_;
    std::vector<uint8_t> marked_;
    std::vector<uint32_t> version_;
    std::vector<uint8_t> gone_;
    std::priority_queue<Key> queue_;
    std::vector<int32_t> touched_, joined_;
};

EliminationOrder hopeless() {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    EliminationOrder out;
    out.complete = false;
    out.entries = out.separators = out.largest = infinite;
    return out;
}

EliminationOrder order_of_component(const Neighbours& neighbours, const std::vector<double>& labels) {
    std::optional<EliminationOrder> best;
    int64_t spent = 0;
    const auto attempt = [&](Rule rule, uint64_t seed, int64_t budget) {
        Greedy greedy(neighbours, labels, rule, seed);
        const double enough = best ? best->entries : std::numeric_limits<double>::infinity();
        if (auto found = greedy.run(enough, budget)) best = std::move(found);
        spent += greedy.work;
    };
    attempt(Rule::degree, 0, most_work);  // the cheapest to find
    if (!best) return hopeless();
    if (best->width <= 1) return *best;  // a tree: nothing is better
    const auto budget = [&] {
        const double share = work_share * best->entries;
        return std::clamp(share < 1e18 ? static_cast<int64_t>(share) : most_work, least_work, most_work);
    };
    for (Rule rule : {Rule::fill, Rule::weight, Rule::weighted_fill}) attempt(rule, 0, most_work);
    spent = 0;
    for (uint64_t seed = 1; seed <= random_orders && spent < budget(); ++seed)
        attempt(std::array{Rule::fill, Rule::weighted_fill, Rule::weight}[seed % 3], seed, budget() - spent);
    return *best;
}

}  // namespace

EliminationOrder elimination_order(Neighbours neighbours, const std::vector<double>& labels) {
    const auto n = static_cast<int32_t>(labels.size());
    EliminationOrder out;
    out.order.reserve(n);
    out.scope_offsets.assign(1, 0);
    std::vector<int32_t> local(n, -1), members;
    for (int32_t start = 0; start < n; ++start) {
        if (local[start] >= 0) continue;
        members.assign(1, start);
        local[start] = 0;
        for (size_t k = 0; k < members.size(); ++k)
            for (int32_t other : neighbours[members[k]])
                if (local[other] < 0) {
                    local[other] = 0;
                    members.push_back(other);
                }
        std::sort(members.begin(), members.end());
        Neighbours part(members.size());
        std::vector<double> part_labels(members.size());
        for (size_t k = 0; k < members.size(); ++k) local[members[k]] = static_cast<int32_t>(k);
        for (size_t k = 0; k < members.size(); ++k) {
            part_labels[k] = labels[members[k]];
            part[k] = std::move(neighbours[members[k]]);
            for (int32_t& other : part[k]) other = local[other];
        }
        const EliminationOrder found = order_of_component(part, part_labels);
        if (!found.complete) return found;
        for (size_t k = 0; k < members.size(); ++k) {
            out.order.push_back(members[found.order[k]]);
            for (int64_t e = found.scope_offsets[k]; e < found.scope_offsets[k + 1]; ++e)
                out.scopes.push_back(members[found.scopes[e]]);
            out.scope_offsets.push_back(static_cast<int64_t>(out.scopes.size()));
        }
        out.entries += found.entries;
        out.separators += found.separators;
        out.largest = std::max(out.largest, found.largest);
        out.width = std::max(out.width, found.width);
    }
    return out;
}

}  // namespace blendfield
