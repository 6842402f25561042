// The certificate of the CPU problem: consistent beliefs q near the beliefs b, and the gap they prove,
//
//   F - D(q) = sum_r eps c_r KL(q_r || b_r)        (at eps c_r = 0: value_r - <q_r, hat_r>).
//
// Per connected component ("segment") one of three ways to q:
//   two_level    all children are single variables: rounding inside the kernels, block by block, no copy of the tables;
//   projection   deeper graphs: Euclidean projection onto the marginalisation constraints in closed form, repeated on
//                |q|, then mixed with the uniform point;
//   scaling      some label is forbidden: iterative scaling on the support, small regions first.
#include "cpu/certificate.h"

#include <cmath>
#include <limits>
#include <optional>

#include "cpu/tables.h"
#include "cpu/thread_pool.h"

namespace blendfield {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int projections = 3;  // more cost time and, by what was measured, tightness: decision 0004
constexpr int scaling_rounds = 200;
constexpr double scaling_residual = 1e-13;

// The pure interaction of a marginal: its mean along every axis removed, in place.
void remove_means(const int* extents, int axes, double* table, int64_t size) {
    int64_t inner = 1;
    for (int a = axes - 1; a >= 0; --a) {
        const int n = extents[a];
        for (int64_t outer = 0; outer < size / (n * inner); ++outer)
            for (int64_t k = 0; k < inner; ++k) {
                double* line = table + outer * n * inner + k;
                double mean = 0;
                for (int y = 0; y < n; ++y) mean += line[y * inner];
                mean /= n;
                for (int y = 0; y < n; ++y) line[y * inner] -= mean;
            }
        inner *= n;
    }
}

}  // namespace

template <class T>
void Problem<T>::two_level_certificate(double smoothing, Sink child_values, Sink child_gaps, Sink values, Sink gaps,
                                       double* candidate) {
    parallel_for(threads_, zero_children_.size(), all_cost_, [&](int64_t begin, int64_t end, int) {
        std::vector<double> hat, marginal;
        for (int64_t k = begin; k < end; ++k) {  // q of a child with c = 0: the marginal of a parent
            const auto& [child, parent, slot] = zero_children_[k];
            const Group &pg = layout_.groups[layout_.place(parent).group],
                        &cg = layout_.groups[layout_.place(child).group];
            hat.resize(pg.entries);
            for_hat(layout_.place(parent), [&](int64_t e, double entry) { hat[e] = entry; });
            const double temperature = smoothing * program_.counting_of(parent);
            const double largest = *std::max_element(hat.begin(), hat.end());
            marginal.assign(cg.entries, 0.0);
            double total = 0;
            for (double& b : hat) total += b = std::exp((b - largest) / temperature);
            Projected(pg.extents.data(), static_cast<int>(pg.extents.size()), pg.slot_masks[slot])
                .marginalise(hat.data(), marginal.data());
            double* q = child_beliefs_.data() + q_offset_[layout_.place(child).group] +
                        static_cast<int64_t>(layout_.place(child).lane / cg.width) * cg.entries * cg.width +
                        layout_.place(child).lane % cg.width;
            for (int64_t y = 0; y < cg.entries; ++y) q[y * cg.width] = marginal[y] / total;
        }
    });
    const CertificateView view{smoothing,
                               child_beliefs_.data(),
                               q_offset_.data(),
                               zero_children_.empty() ? nullptr : fixed_.data(),
                               child_q_.data(),
                               child_start_.data(),
                               child_width_pointers_.data()};
    auto run = [&](const std::vector<ValueItem>& items, Sink value_sink, Sink gap_sink) {
        parallel_for(threads_, items.size(), all_cost_, [&](int64_t begin, int64_t end, int t) {
            Scratch& work = scratch(t, true);
            if (!candidate) {
                kernels_->certificate(view_, view, items.data(), begin, end, work, nullptr, value_sink, gap_sink);
                return;
            }
            for (int64_t k = begin; k < end; ++k) {
                const Group& g = layout_.groups[items[k].group];
                Buffer<double> large(g.in_pieces ? g.entries : 0);
                double* const q = g.in_pieces ? large.data() : work.block[1];
                kernels_->certificate(view_, view, items.data(), k, k + 1, work, q, value_sink, gap_sink);
                write_candidate(items[k], q, candidate);
            }
        });
    };
    run(child_items_, child_values, child_gaps);
    run(parent_items_, values, gaps);
}

template <class T>
void Problem<T>::write_candidate(const ValueItem& item, const double* block, double* candidate) const {
    for_block_entries(program_, layout_, item, [&](int64_t flat, int64_t at) { candidate[flat] = block[at]; });
}

template <class T>
void Problem<T>::general_certificate(double smoothing, Sink values, Sink gaps, std::vector<uint8_t>& failed,
                                     double* candidate) {
    Deep& deep = *deep_;
    Buffer<double> q(deep.entries), marginals(deep.marginals);
    const ProblemView<T> smooth = with_epsilon(smoothing);
    auto group_of = [&](const typename Deep::Region& d) -> const Group& {
        return layout_.groups[layout_.place(d.region).group];
    };
    auto for_lanes = [&](const ValueItem& item, auto f) {
        const Group& g = layout_.groups[item.group];
        for (int l = 0; l < g.width; ++l)
            if (item.mask >> l & 1)
                f(g, l,
                  deep.regions[deep.number[layout_.region_of_lane[g.first_lane +
                                                                  static_cast<int64_t>(item.block) * g.width + l]]]);
    };
    // q of a region that is worked on in pieces, null for the others.
    auto table_in_pieces = [&](const ValueItem& item) -> double* {
        const Group& g = layout_.groups[item.group];
        if (!g.in_pieces) return nullptr;
        return q.data() + deep.regions[deep.number[layout_.region_of_lane[g.first_lane + item.block]]].table;
    };
    const int64_t regions = static_cast<int64_t>(deep.regions.size());
    auto over_regions = [&](int64_t first, int64_t last, auto f) {
        parallel_for(threads_, last - first, deep.entries, [&](int64_t begin, int64_t end, int) {
            for (int64_t d = first + begin; d < first + end; ++d) f(deep.regions[d]);
        });
    };

    // Beliefs, region by region.
    parallel_for(threads_, deep.items.size(), deep.entries, [&](int64_t begin, int64_t end, int t) {
        Scratch& work = scratch(t, true);
        for (int64_t k = begin; k < end; ++k) {
            if (double* table = table_in_pieces(deep.items[k])) {
                kernels_->beliefs(smooth, deep.items[k], k, work, table, {nullptr, nullptr});
                continue;
            }
            kernels_->beliefs(smooth, deep.items[k], k, work, work.block[1], {nullptr, nullptr});
            for_lanes(deep.items[k], [&](const Group& g, int l, const typename Deep::Region& d) {
                for (int64_t e = 0; e < g.entries; ++e) q[d.table + e] = work.block[1][e * g.width + l];
            });
        }
    });
    for (size_t k = 0; k < deep.zero.size(); ++k) {
        const auto &child = deep.regions[deep.zero[k]], &parent = deep.regions[deep.zero_parent[k].deep];
        const Group& pg = group_of(parent);
        Projected(pg.extents.data(), static_cast<int>(pg.extents.size()), deep.zero_parent[k].mask)
            .marginalise(q.data() + parent.table, q.data() + child.table);
    }

    // Projection: b_r += (g_S - m_S^r) / v_r for every node (r, S), m the pure marginal, v_r = |Y_r| / |Y_S|, g_S the
    // mean of m over the component with weights 1 / v_r.
    auto needs_projection = [&](const typename Deep::Region& d) {
        return strategy_[program_.segment_of(d.region)] == projection;
    };
    // Calls f(how a node's subset lies in its source, the source's marginal (null: the region's table), the node's
    // marginal) for the nodes of a region, sources first, or last.
    auto for_nodes = [&](const typename Deep::Region& d, bool backwards, auto f) {
        const std::vector<int>& all = group_of(d).extents;
        for (int64_t n = 0; n < d.last_node - d.first_node; ++n) {
            const auto& node = deep.nodes[backwards ? d.last_node - 1 - n : d.first_node + n];
            int extents[32] = {}, axes = 0;
            const uint32_t outer = node.source < 0 ? ~0u : deep.nodes[node.source].mask;
            for (size_t a = 0; a < all.size(); ++a)
                if (outer >> a & 1) extents[axes++] = all[a];
            f(Projected(extents, axes, node.mask_in_source),
              node.source < 0 ? nullptr : marginals.data() + deep.nodes[node.source].marginal,
              marginals.data() + node.marginal);
        }
    };
    const bool any_projection = std::count(strategy_.begin(), strategy_.end(), projection) > 0;
    for (int round = 0; any_projection && round < projections; ++round) {
        over_regions(0, regions, [&](const typename Deep::Region& d) {
            if (!needs_projection(d)) return;
            const Group& g = group_of(d);
            double* table = q.data() + d.table;
            double total = 0;
            for (int64_t e = 0; e < g.entries; ++e) total += table[e] = std::abs(table[e]);
            for (int64_t e = 0; e < g.entries; ++e) table[e] /= total;
            for_nodes(d, false, [&](const Projected& in_source, double* source, double* m) {
                in_source.marginalise(source ? source : table, m);
            });
            for (int64_t k = d.first_node; k < d.last_node; ++k) {
                int extents[32] = {}, axes = 0;
                for (size_t a = 0; a < g.extents.size(); ++a)
                    if (deep.nodes[k].mask >> a & 1) extents[axes++] = g.extents[a];
                remove_means(extents, axes, marginals.data() + deep.nodes[k].marginal, deep.nodes[k].size);
            }
        });
        // m becomes (g_S - m) / v_r.
        const int64_t components = static_cast<int64_t>(deep.component_start.size()) - 1;
        parallel_for(threads_, components, deep.marginals, [&](int64_t begin, int64_t end, int) {
            std::vector<double> common, volume;
            for (int64_t c = begin; c < end; ++c) {
                const int64_t first = deep.component_start[c], last = deep.component_start[c + 1];
                const int64_t size = deep.nodes[deep.component_nodes[first]].size;
                common.assign(size, 0.0);
                volume.clear();
                double weight = 0;
                for (int64_t k = first; k < last; ++k) {
                    const auto& node = deep.nodes[deep.component_nodes[k]];
                    const auto& d = deep.regions[deep.node_region[deep.component_nodes[k]]];
                    volume.push_back(static_cast<double>(group_of(d).entries) / static_cast<double>(size));
                    weight += 1 / volume.back();
                    for (int64_t y = 0; y < size; ++y) common[y] += marginals[node.marginal + y] / volume.back();
                }
                for (double& x : common) x /= weight;
                for (int64_t k = first; k < last; ++k) {
                    double* m = marginals.data() + deep.nodes[deep.component_nodes[k]].marginal;
                    for (int64_t y = 0; y < size; ++y) m[y] = (common[y] - m[y]) / volume[k - first];
                }
            }
        });
        std::vector<uint8_t> negative(regions, 0);
        over_regions(0, regions, [&](const typename Deep::Region& d) {
            if (!needs_projection(d)) return;
            const Group& g = group_of(d);
            double* table = q.data() + d.table;
            for_nodes(d, true, [&](const Projected& in_source, double* source, double* m) {
                in_source.combine(m, source ? source : table, [](double x, double add) { return x + add; });
            });
            for (int64_t e = 0; e < g.entries; ++e)
                if (table[e] < 0) negative[deep.number[d.region]] = 1;
        });
        if (std::count(negative.begin(), negative.end(), 1) == 0) break;
    }
    if (any_projection) {  // just enough of the uniform point
        std::vector<double> mixing(program_.segments, 0.0);
        for (const auto& d : deep.regions) {
            if (!needs_projection(d)) continue;
            const int64_t entries = group_of(d).entries;
            const double least = *std::min_element(q.data() + d.table, q.data() + d.table + entries);
            const double uniform = 1.0 / static_cast<double>(entries);
            double& part = mixing[program_.segment_of(d.region)];
            if (least < 0) part = std::max(part, std::min(1.0, (1 + 1e-12) * -least / (uniform - least)));
        }
        over_regions(0, regions, [&](const typename Deep::Region& d) {
            if (!needs_projection(d)) return;
            const int64_t entries = group_of(d).entries;
            const double part = mixing[program_.segment_of(d.region)], add = part / static_cast<double>(entries);
            for (int64_t e = 0; e < entries; ++e) q[d.table + e] = std::max((1 - part) * q[d.table + e] + add, 0.0);
        });
    }

    // Scaling: regions of one order depend on smaller ones only.
    std::vector<uint8_t> missed(regions, 0);
    auto scale = [&](const typename Deep::Region& d) {
        if (strategy_[program_.segment_of(d.region)] != scaling) return;
        const Group& g = group_of(d);
        double* table = q.data() + d.table;
        std::vector<double> marginal;
        auto marginalise = [&](const typename Deep::Child& child) {
            const Projected in_parent(g.extents.data(), static_cast<int>(g.extents.size()), child.mask);
            marginal.resize(in_parent.size);
            in_parent.marginalise(table, marginal.data());
            return in_parent;
        };
        for (int round = 0; round <= scaling_rounds; ++round) {
            double residual = 0;
            for (int64_t k = d.first_child; k < d.last_child; ++k) {
                const double* want = q.data() + deep.regions[deep.children[k].deep].table;
                marginalise(deep.children[k]);
                for (size_t y = 0; y < marginal.size(); ++y)
                    residual = std::max(residual, std::abs(marginal[y] - want[y]));
            }
            if (residual <= scaling_residual) return;
            for (int64_t k = d.first_child; k < d.last_child; ++k) {
                const double* want = q.data() + deep.regions[deep.children[k].deep].table;
                const Projected in_parent = marginalise(deep.children[k]);
                for (size_t y = 0; y < marginal.size(); ++y)  // the quotient must not overflow
                    marginal[y] = marginal[y] >= std::numeric_limits<double>::min() ? want[y] / marginal[y] : 0.0;
                in_parent.combine(marginal.data(), table, [](double x, double factor) { return x * factor; });
            }
        }
        missed[deep.number[d.region]] = 1;
    };
    for (int64_t first = 0; first < regions;) {
        int64_t last = first;
        const size_t axes = group_of(deep.regions[first]).extents.size();
        while (last < regions && group_of(deep.regions[last]).extents.size() == axes) ++last;
        over_regions(first, last, scale);
        first = last;
    }
    for (int64_t d = 0; d < regions; ++d)
        if (missed[d]) failed[program_.segment_of(deep.regions[d].region)] = 1;

    parallel_for(threads_, deep.items.size(), deep.entries, [&](int64_t begin, int64_t end, int t) {
        Scratch& work = scratch(t, true);
        for (int64_t k = begin; k < end; ++k) {
            const double* block = table_in_pieces(deep.items[k]);
            if (!block) {
                for_lanes(deep.items[k], [&](const Group& g, int l, const typename Deep::Region& d) {
                    for (int64_t e = 0; e < g.entries; ++e) work.block[1][e * g.width + l] = q[d.table + e];
                });
                block = work.block[1];
            }
            if (candidate) write_candidate(deep.items[k], block, candidate);
            kernels_->gaps(view_, deep.items[k], k, work, block, values, gaps);
        }
    });
}

template <class T>
CertificateSums Problem<T>::certificate(double smoothing, bool region_gaps, double* candidate) {
    if (!prepared_) prepare_certificate();
    std::optional<LaneOfRegion> places;
    if (!zero_children_.empty() || !deep_->items.empty()) places.emplace(layout_);
    const size_t children = child_items_.size(), parents = parent_items_.size(), others = deep_->items.size();
    std::vector<double> value_items(children + parents + others), gap_items(children + parents + others);
    const bool by_lane = region_gaps || program_.segments > 1 || others;
    Buffer<double> value_lanes(by_lane ? layout_.lanes : 0), gap_lanes(by_lane ? layout_.lanes : 0);
    auto sinks = [&](size_t first) {
        return std::pair<Sink, Sink>({value_items.data() + first, value_lanes.data()},
                                     {gap_items.data() + first, gap_lanes.data()});
    };
    const auto [child_values, child_gaps] = sinks(0);
    const auto [parent_values, parent_gaps] = sinks(children);
    const auto [other_values, other_gaps] = sinks(children + parents);
    two_level_certificate(smoothing, child_values, child_gaps, parent_values, parent_gaps, candidate);
    std::vector<uint8_t> failed(program_.segments, 0);
    if (others) general_certificate(smoothing, other_values, other_gaps, failed, candidate);

    CertificateSums out;
    out.value.assign(program_.segments, 0.0);
    out.spread.assign(program_.segments, 0.0);
    out.gap.assign(program_.segments, 0.0);
    if (region_gaps) out.region_gaps.assign(layout_.regions, 0.0);
    if (by_lane) {
        for (size_t lane = 0; lane < layout_.region_of_lane.size(); ++lane) {
            const int32_t r = layout_.region_of_lane[lane];
            if (r < 0) continue;
            const double c = program_.counting_of(r);
            out.value[program_.segment_of(r)] += value_lanes[lane];
            double gap = c >= 0 ? std::max(gap_lanes[lane], 0.0) : std::min(gap_lanes[lane], 0.0);
            if (failed[program_.segment_of(r)]) gap = infinity;
            out.gap[program_.segment_of(r)] += gap;
            out.spread[program_.segment_of(r)] += std::abs(gap);
            if (region_gaps) out.region_gaps[r] = gap;
        }
    } else if (program_.segments) {
        for (double value : value_items) out.value[0] += value;
        for (double gap : gap_items) {
            out.gap[0] += gap;
            out.spread[0] += std::abs(gap);
        }
    }
    return out;
}

template void Problem<double>::two_level_certificate(double, Sink, Sink, Sink, Sink, double*);
template void Problem<float>::two_level_certificate(double, Sink, Sink, Sink, Sink, double*);
template void Problem<double>::general_certificate(double, Sink, Sink, std::vector<uint8_t>&, double*);
template void Problem<float>::general_certificate(double, Sink, Sink, std::vector<uint8_t>&, double*);
template void Problem<double>::write_candidate(const ValueItem&, const double*, double*) const;
template void Problem<float>::write_candidate(const ValueItem&, const double*, double*) const;
template CertificateSums Problem<double>::certificate(double, bool, double*);
template CertificateSums Problem<float>::certificate(double, bool, double*);

}  // namespace blendfield
