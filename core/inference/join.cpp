#include "inference/join.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "inference/order.h"

namespace blendfield {

namespace {

using Scope = std::vector<int32_t>;

constexpr size_t most_variables = 32;  // of a region

// Ranks of the variables in the order of their elimination.
std::vector<int32_t> ranks(const RegionArrays& a) {
    std::vector<Scope> neighbours(a.variables);
    for (int64_t r = 0; r < a.regions; ++r)
        for (int j = 0; j < a.order(r); ++j)
            for (int k = 0; k < a.order(r); ++k)
                if (j != k) neighbours[a.scope(r)[j]].push_back(a.scope(r)[k]);
    for (Scope& around : neighbours) {
        std::sort(around.begin(), around.end());
        around.erase(std::unique(around.begin(), around.end()), around.end());
    }
    const std::vector<double> labels(a.cardinalities, a.cardinalities + a.variables);
    const EliminationOrder found = elimination_order(std::move(neighbours), labels);
    std::vector<int32_t> rank(a.variables);
    std::iota(rank.begin(), rank.end(), 0);  // where finding an order is too much work
    for (size_t k = 0; k < found.order.size(); ++k) rank[found.order[k]] = static_cast<int32_t>(k);
    return rank;
}

class Join {
  public:
    Join(const RegionArrays& arrays, double most_entries)
        : a_(arrays), most_(most_entries), rank_(ranks(arrays)), buckets_(arrays.variables) {
        out.holder.resize(a_.regions);
        for (int64_t r = 0; r < a_.regions; ++r) {
            Scope scope(a_.scope(r), a_.scope(r) + a_.order(r));
            std::sort(scope.begin(), scope.end());
            put({std::move(scope), static_cast<int32_t>(r)});
        }
        for (int32_t k = 0; k < a_.variables; ++k) split(k);
    }
    JoinGraph out;

  private:
    struct Item {
        Scope scope;
        int32_t region;  // of the model, -1: what is left of a joined one
    };
    struct Part {  // of a bucket
        Scope scope;
        std::vector<int32_t> held;
    };

    double entries(const Scope& scope) const {
        double product = scope.size() > most_variables ? std::numeric_limits<double>::infinity() : 1;
        for (int32_t v : scope) product *= a_.cardinalities[v];
        return product;
    }

    void put(Item item) {
        int32_t first = rank_[item.scope[0]];
        for (int32_t v : item.scope) first = std::min(first, rank_[v]);
        buckets_[first].push_back(std::move(item));
    }

    int32_t region(const Scope& scope) {
        const auto [at, fresh] = index_.try_emplace(scope, static_cast<int32_t>(out.offsets.size()) - 1);
        if (fresh) {
            out.variables.insert(out.variables.end(), scope.begin(), scope.end());
            out.offsets.push_back(static_cast<int64_t>(out.variables.size()));
        }
        return at->second;
    }

    // Large scopes first; each goes where the joint table stays smallest, to a part of its own where none is small.
    void split(int32_t k) {
        std::vector<Item> items = std::move(buckets_[k]);
        std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
            const double left = entries(a.scope), right = entries(b.scope);
            return left != right ? left > right : a.scope < b.scope;
        });
        std::vector<Part> parts;
        for (const Item& item : items) {
            Part* best = nullptr;
            double least = 0;
            Scope joint, chosen;
            for (Part& part : parts) {
                joint.clear();
                std::set_union(part.scope.begin(), part.scope.end(), item.scope.begin(), item.scope.end(),
                               std::back_inserter(joint));
                const double size = joint.size() == part.scope.size() ? 0 : entries(joint);
                if (size > most_ || (best && size >= least)) continue;
                best = &part;
                least = size;
                chosen = joint;
                if (size == 0) break;
            }
            if (!best) {
                parts.push_back({});
                best = &parts.back();
                chosen = item.scope;
            }
            best->scope = std::move(chosen);
            if (item.region >= 0) best->held.push_back(item.region);
        }
        out.exact = out.exact && parts.size() <= 1;
        for (size_t p = 0; p < parts.size(); ++p) {
            const int32_t joined = region(parts[p].scope);
            for (int32_t r : parts[p].held) out.holder[r] = joined;
            Scope rest, common;
            for (int32_t v : parts[p].scope)
                if (rank_[v] != k) rest.push_back(v);
            if (!rest.empty()) {
                region(rest);
                put({std::move(rest), -1});
            }
            if (p == 0) continue;
            std::set_intersection(parts[p].scope.begin(), parts[p].scope.end(), parts[p - 1].scope.begin(),
                                  parts[p - 1].scope.end(), std::back_inserter(common));
            region(common);
        }
    }

    const RegionArrays& a_;
    double most_;
    std::vector<int32_t> rank_;
    std::vector<std::vector<Item>> buckets_;
    std::map<Scope, int32_t> index_;
};

}  // namespace

JoinGraph join_regions(const RegionArrays& arrays, double most_entries) { return Join(arrays, most_entries).out; }

void join_tables(const RegionArrays& arrays, const double* tables, const RegionArrays& joined, const int32_t* holder,
                 double* out) {
    std::fill_n(out, joined.table_offsets[joined.regions], 0.0);
    for (int64_t r = 0; r < arrays.regions; ++r) {
        const double* table = tables + arrays.table_offsets[r];
        double* sum = out + joined.table_offsets[holder[r]];
        const int order = joined.order(holder[r]);
        const int32_t* scope = joined.scope(holder[r]);
        std::vector<int64_t> step(order, 0);  // in the region's table, along the axes of its holder
        for (int64_t k = arrays.order(r) - 1, next = 1; k >= 0; --k) {
            const int32_t variable = arrays.scope(r)[k];
            step[std::find(scope, scope + order, variable) - scope] = next;
            next *= arrays.cardinalities[variable];
        }
        std::vector<int32_t> digit(order, 0);
        const int last = order - 1, row = joined.cardinalities[scope[last]];
        const int64_t entries = joined.table_offsets[holder[r] + 1] - joined.table_offsets[holder[r]];
        int64_t at = 0;
        for (int64_t e = 0; e < entries; e += row) {
            for (int y = 0; y < row; ++y) sum[e + y] += table[at + y * step[last]];
            for (int a = last - 1; a >= 0; --a) {
                at += step[a];
                if (++digit[a] < joined.cardinalities[scope[a]]) break;
                at -= step[a] * digit[a];
                digit[a] = 0;
            }
        }
    }
}

}  // namespace blendfield
