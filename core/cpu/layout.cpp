#include "cpu/layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "cpu/memory.h"

namespace blendfield {

namespace {

constexpr int64_t wide_block_bytes = 1 << 20;    // a block of 32 lanes larger than this is stored in blocks of 8
constexpr int64_t narrow_block_bytes = 4 << 20;  // and a block of 8 larger than this lane by lane
constexpr int64_t piece_entries = 1 << 12;       // larger tables stored lane by lane are worked on in pieces
constexpr int64_t part_entries = 1 << 15;        // larger lone tables are worked on in parts of about this size
constexpr int part_labels = 64;                  // with so many of the child's labels at least

uint64_t mix(uint64_t h, uint64_t value) {
    h ^= value + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdull;
    return h ^ (h >> 32);
}

// Bits of the core axes of `parent` that carry the variables of `child`.
uint32_t child_mask(const ProgramArrays& p, int64_t parent, const int* parent_axes, int64_t child) {
    const int32_t* parent_variables = p.region_variables + p.region_offsets[parent];
    const int order = static_cast<int>(p.region_offsets[parent + 1] - p.region_offsets[parent]);
    uint32_t mask = 0;
    for (int64_t k = p.region_offsets[child]; k < p.region_offsets[child + 1]; ++k)
        for (int a = 0; a < order; ++a)
            if (parent_variables[parent_axes[a]] == p.region_variables[k]) mask |= 1u << a;
    return mask;
}

// How much of a vector does useful work, lanes in packs of 8: `packs` counts (pack, class) pairs with active lanes.
int choose_width(int64_t lanes, int64_t slots, int64_t packs, int64_t entries, int last, int table_bytes) {
    const double by_lanes = slots ? static_cast<double>(lanes * slots) / static_cast<double>(8 * packs)
                                  : std::min(1.0, static_cast<double>(lanes) / 8);
    // A lane by itself is vectorised along its last axis, with some overhead per row.
    const double by_rows = 0.6 * last / (8.0 * ((last + 7) / 8));
    int width = lanes >= 24 ? 32 : 8;
    if (width == 32 && entries * 32 * table_bytes > wide_block_bytes) width = 8;
    if (width == 8 && entries * 8 * table_bytes > narrow_block_bytes) width = 1;
    return by_lanes < by_rows ? 1 : width;
}

// How many of the child's labels go into one part of a message, for several threads to share a lone table: whole slices
// along the first axis, or columns for a child that is the last axis. The same on any number of threads.
int labels_in_part(const Group& g, int slot) {
    const int labels = g.slots[slot].labels, slice = g.strides[slot].front();
    const bool columns = g.slots[slot].last_stride && labels == g.extents.back();
    const int64_t parts = g.entries / part_entries;
    if (g.width > 1 || parts < 2 || (slice == 0 && !columns)) return labels;
    const int step = slice == 0 ? part_labels : slice;
    const int64_t wanted = std::max<int64_t>((labels + parts - 1) / parts, part_labels);
    return static_cast<int>(std::min<int64_t>((wanted + step - 1) / step * step, labels));
}

}  // namespace

void Layout::core_axes(const ProgramArrays& p, int64_t region, int* axes) {
    const int32_t* variables = p.region_variables + p.region_offsets[region];
    const int order = static_cast<int>(p.region_offsets[region + 1] - p.region_offsets[region]);
    for (int a = 0; a < order; ++a) axes[a] = a;
    std::sort(axes, axes + order, [&](int a, int b) {
        const int32_t ca = p.cardinalities[variables[a]], cb = p.cardinalities[variables[b]];
        return ca != cb ? ca < cb : variables[a] < variables[b];
    });
}

LaneOfRegion::LaneOfRegion(const Layout& layout) : layout_(layout), outermost_(layout.lane_of_region.empty()) {
    if (!outermost_) return;
    layout_.lane_of_region.resize(layout_.regions);
    for (size_t lane = 0; lane < layout_.region_of_lane.size(); ++lane)
        if (layout_.region_of_lane[lane] >= 0)
            layout_.lane_of_region[layout_.region_of_lane[lane]] = static_cast<int32_t>(lane);
}

LaneOfRegion::~LaneOfRegion() {
    if (!outermost_) return;
    std::vector<int32_t>().swap(layout_.lane_of_region);
    give_back(4 * layout_.regions);
}

Layout::Place Layout::place_of_lane(int32_t lane) const {
    const auto next = std::upper_bound(groups.begin(), groups.end(), lane,
                                       [](int32_t value, const Group& g) { return value < g.first_lane; });
    return {static_cast<int32_t>(next - groups.begin()) - 1, lane - static_cast<int32_t>(next[-1].first_lane)};
}

std::span<const LightBlock> Layout::lights_of(int group, int block) const {
    auto before = [](const LightBlock& a, const std::pair<int, int>& b) {
        return a.group != b.first ? a.group < b.first : a.block < b.second;
    };
    const auto begin = std::lower_bound(lights.begin(), lights.end(), std::pair{group, block}, before);
    const auto end = std::lower_bound(begin, lights.end(), std::pair{group, block + 1}, before);
    return {begin, end};
}

int64_t Layout::bytes() const {
    int64_t total = 0;
    auto add = [&](const auto& v) { total += static_cast<int64_t>(v.capacity() * sizeof(v[0])); };
    add(region_of_lane), add(permuted), add(lights), add(edges), add(index), add(weights), add(all_items),
        add(rest_items);
    for (const auto& g : groups) add(g.counting);
    for (const auto& h : heavy) add(h);
    for (const auto& b : heavy_blocks) add(b);
    for (const auto& l : light) add(l);
    return total;
}

Layout compile_layout(const ProgramArrays& p, int table_bytes) {
    // Much is needed here and little is left; tables come next.
    const GiveBack memory(16 * (p.regions + p.edges));
    give_back(memory.bytes);
    Layout out;
    out.regions = p.regions;
    out.variables = p.variables;
    out.schedule.assign(p.schedule, p.schedule + p.steps);

    // Edges by parent are sorted already.
    std::vector<int32_t> parent_start(p.regions + 1, 0);
    for (int64_t e = 0; e < p.edges; ++e) ++parent_start[p.edge_parents[e] + 1];
    std::partial_sum(parent_start.begin(), parent_start.end(), parent_start.begin());

    // Groups: same extents, same child slots, same role.
    std::vector<int32_t> group_of(p.regions);
    std::vector<int32_t> slot_of_edge(p.edges);  // slot number of each edge inside its parent's group
    std::unordered_map<std::string, int> known;
    std::string key;
    int axes[32];
    std::vector<std::pair<uint32_t, int64_t>> masks;
    for (int64_t r = 0; r < p.regions; ++r) {
        const int order = static_cast<int>(p.region_offsets[r + 1] - p.region_offsets[r]);
        if (order < 1 || order > 32) throw std::invalid_argument("region order out of range");
        Layout::core_axes(p, r, axes);
        const bool sends = p.class_of(r) >= 0;
        masks.clear();
        for (int64_t e = parent_start[r]; e < parent_start[r + 1]; ++e)
            masks.emplace_back(child_mask(p, r, axes, p.edge_children[e]), e);
        std::sort(masks.begin(), masks.end());
        key.assign(1, sends ? 's' : 'o');
        auto append = [&](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
        append(static_cast<uint32_t>(order));
        for (int a = 0; a < order; ++a)
            append(static_cast<uint32_t>(p.cardinalities[p.region_variables[p.region_offsets[r] + axes[a]]]));
        for (const auto& [mask, e] : masks) append(mask);
        auto [found, fresh] = known.try_emplace(key, static_cast<int>(out.groups.size()));
        if (fresh) {
            Group g;
            g.sends = sends;
            for (int a = 0; a < order; ++a) {
                g.extents.push_back(p.cardinalities[p.region_variables[p.region_offsets[r] + axes[a]]]);
                g.entries *= g.extents.back();
            }
            for (const auto& [mask, e] : masks) g.slot_masks.push_back(mask);
            out.groups.push_back(std::move(g));
        }
        group_of[r] = found->second;
        ++out.groups[found->second].lanes;
        for (size_t s = 0; s < masks.size(); ++s) slot_of_edge[masks[s].second] = static_cast<int32_t>(s);
    }

    // Lanes whose children (then themselves) act in the same classes come together, so that a block rarely mixes
    // classes. Group after group: keys of all lanes at once would be the largest array of all.
    struct Lane {
        uint64_t classes;
        uint32_t rest;
        int32_t region;
    };
    std::vector<int32_t> members(p.regions);  // regions, group after group, in the order of their lanes
    std::vector<int64_t> first_member(out.groups.size() + 1, 0);
    for (size_t k = 0; k < out.groups.size(); ++k) first_member[k + 1] = first_member[k] + out.groups[k].lanes;
    {
        std::vector<int64_t> fill(first_member.begin(), first_member.end() - 1);
        for (int64_t r = 0; r < p.regions; ++r) members[fill[group_of[r]]++] = static_cast<int32_t>(r);
    }
    std::vector<Lane> lanes;
    auto sort_members = [&](size_t k, auto refine) {
        constexpr int class_bits = 12, sorted_slots = 5;
        lanes.clear();
        lanes.reserve(out.groups[k].lanes);
        for (int64_t m = first_member[k]; m < first_member[k + 1]; ++m) {
            const int32_t r = members[m];
            uint64_t classes = 0, rest = mix(0, static_cast<uint64_t>(p.class_of(r) + 1));
            for (int64_t e = parent_start[r]; e < parent_start[r + 1]; ++e) {
                const auto c = static_cast<uint64_t>(p.class_of(p.edge_children[e]) + 1);
                if (slot_of_edge[e] < sorted_slots && c < (1u << class_bits))
                    classes |= c << ((sorted_slots - 1 - slot_of_edge[e]) * class_bits);
                else
                    rest = mix(rest, c * 64 + static_cast<uint64_t>(slot_of_edge[e]) * 0x10001ull);
            }
            if (parent_start[r] == parent_start[r + 1]) classes = static_cast<uint64_t>(p.class_of(r) + 1);
            lanes.push_back({classes, refine(r, static_cast<uint32_t>(rest)), r});
        }
        std::sort(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) {
            if (a.classes != b.classes) return a.classes < b.classes;
            return a.rest != b.rest ? a.rest < b.rest : a.region < b.region;
        });
        for (size_t lane = 0; lane < lanes.size(); ++lane) members[first_member[k] + lane] = lanes[lane].region;
    };
    std::vector<int32_t> seen;
    for (size_t k = 0; k < out.groups.size(); ++k) {
        Group& g = out.groups[k];
        sort_members(k, [](int32_t, uint32_t rest) { return rest; });
        const auto slots = static_cast<int64_t>(g.slot_masks.size());
        int64_t packs = 0;
        for (int64_t slot = 0; slot < slots; ++slot)
            for (int begin = 0; begin < g.lanes; begin += 8) {
                seen.clear();
                for (int lane = begin; lane < std::min(begin + 8, g.lanes); ++lane) {
                    const int32_t r = members[first_member[k] + lane];
                    for (int64_t e = parent_start[r]; e < parent_start[r + 1]; ++e)
                        if (slot_of_edge[e] == slot) seen.push_back(p.class_of(p.edge_children[e]));
                }
                std::sort(seen.begin(), seen.end());
                packs += std::unique(seen.begin(), seen.end()) - seen.begin();
            }
        g.width = choose_width(g.lanes, slots, packs, g.entries, g.extents.back(), table_bytes);
    }
    std::vector<Lane>().swap(lanes);
    // Edges by child need a counting sort; starts are kept one place to the right meanwhile.
    std::vector<int32_t> child_start(p.regions + 2, 0), edge_of_child(p.edges);
    for (int64_t e = 0; e < p.edges; ++e) ++child_start[p.edge_children[e] + 2];
    std::partial_sum(child_start.begin(), child_start.end(), child_start.begin());
    for (int64_t e = 0; e < p.edges; ++e)
        edge_of_child[child_start[p.edge_children[e] + 1]++] = static_cast<int32_t>(e);
    for (size_t k = 0; k < out.groups.size(); ++k)  // refine by the number of parents and the widths of their groups
        if (out.groups[k].sends)
            sort_members(k, [&](int32_t r, uint32_t rest) {
                rest = static_cast<uint32_t>(mix(rest, static_cast<uint64_t>(child_start[r + 1] - child_start[r])));
                for (int64_t q = child_start[r]; q < child_start[r + 1]; ++q)
                    rest = static_cast<uint32_t>(
                        mix(rest, static_cast<uint64_t>(out.groups[group_of[p.edge_parents[edge_of_child[q]]]].width)));
                return rest;
            });
    std::vector<Lane>().swap(lanes);

    // Offsets of tables, lanes, messages.
    out.lane_of_region.resize(p.regions);
    int64_t padded_lanes = 0;
    for (const Group& g : out.groups) padded_lanes += static_cast<int64_t>((g.lanes + g.width - 1) / g.width) * g.width;
    out.region_of_lane.reserve(padded_lanes), out.permuted.reserve(padded_lanes);
    for (size_t k = 0; k < out.groups.size(); ++k) {
        Group& g = out.groups[k];
        g.blocks = (g.lanes + g.width - 1) / g.width;
        const int64_t padded = static_cast<int64_t>(g.blocks) * g.width;
        g.tables = out.table_entries;
        g.first_lane = out.lanes;
        out.table_entries += padded * g.entries;
        out.lanes += padded;
        g.in_pieces = g.width == 1 && g.entries >= piece_entries && g.slot_masks.size() <= 32 &&
                      (!g.sends || !g.slot_masks.empty());
        if (!g.in_pieces) out.largest_block = std::max(out.largest_block, g.entries * g.width);
        if (g.sends && !g.slot_masks.empty()) {
            g.base = out.base_entries;
            out.base_entries += padded * g.entries;
        }
        out.region_of_lane.resize(out.lanes, -1);
        out.permuted.resize(out.lanes, 0);
        for (int lane = 0; lane < g.lanes; ++lane) {
            const int32_t region = members[first_member[k] + lane];
            out.lane_of_region[region] = static_cast<int32_t>(g.first_lane + lane);
            out.region_of_lane[g.first_lane + lane] = region;
            Layout::core_axes(p, region, axes);
            out.permuted[g.first_lane + lane] = !std::is_sorted(axes, axes + g.extents.size());
        }
        for (int lane = 1; lane < g.lanes && g.uniform; ++lane)
            g.uniform = p.counting_of(members[first_member[k] + lane]) == p.counting_of(members[first_member[k]]);
        g.counting.assign(g.uniform ? 1 : padded, p.counting_of(members[first_member[k]]));
        if (!g.uniform)
            for (int lane = 0; lane < g.lanes; ++lane)
                g.counting[lane] = p.counting_of(members[first_member[k] + lane]);
        const int order = static_cast<int>(g.extents.size());
        int64_t marginal = 0;
        for (uint32_t mask : g.slot_masks) {
            std::vector<int> strides(order, 0);
            int64_t labels = 1;
            for (int a = order - 1; a >= 0; --a)
                if (mask >> a & 1) {
                    strides[a] = static_cast<int>(labels);
                    labels *= g.extents[a];
                }
            if (labels > 0x7fffffff) throw std::length_error("a child region has more than 2^31 - 1 joint labels");
            g.strides.push_back(strides);
            SlotView slot;
            slot.labels = static_cast<int>(labels);
            slot.last_stride = strides[order - 1];
            slot.strides = nullptr;  // set below, when nothing moves any more
            slot.messages = out.message_entries;
            g.slots.push_back(slot);
            out.message_entries += padded * labels;
            marginal += labels;
            out.largest_child = std::max(out.largest_child, labels);
            out.largest_slot = std::max(out.largest_slot, std::max<int64_t>(labels, g.extents.back()) * g.width);
        }
        out.largest_marginal = std::max(out.largest_marginal, marginal * g.width);
        out.most_slots = std::max(out.most_slots, static_cast<int>(g.slots.size()));
    }
    if (out.message_entries >= static_cast<int64_t>(no_edge))
        throw std::length_error("more than 2^32 - 2 message entries in one compiled problem");

    if (std::find(out.permuted.begin(), out.permuted.end(), 1) == out.permuted.end())
        std::vector<uint8_t>().swap(out.permuted);
    std::vector<int32_t>().swap(members);

    // Light blocks: per block, the lanes of one class whose parents have the same widths.
    int classes = 0;
    for (int64_t r = 0; r < p.regions; ++r) classes = std::max(classes, p.class_of(r) + 1);
    out.heavy.resize(classes);
    out.light.resize(classes);
    const int last_class = p.steps ? p.schedule[p.steps - 1] : -1;
    std::vector<uint8_t> covered(p.regions, 0);  // regions in {r} + P(r), r in the last class
    struct Parent {
        int32_t group, slot, region;
        int stride;
        unsigned index;
    };
    std::vector<std::vector<Parent>> parents(32);
    std::vector<unsigned> index;
    std::vector<double> weights;
    for (size_t k = 0; k < out.groups.size(); ++k) {
        Group& g = out.groups[k];
        for (int b = 0; b < g.blocks; ++b) {
            const int filled = std::min(g.width, g.lanes - b * g.width);
            const uint32_t full = filled == 32 ? 0xffffffffu : (1u << filled) - 1;
            const int32_t* region = out.region_of_lane.data() + g.first_lane + static_cast<int64_t>(b) * g.width;
            for (size_t s = 0; s < g.slots.size(); ++s) {  // heavy items of the block
                uint32_t todo = full;
                auto child_class = [&](int lane) {
                    for (int64_t e = parent_start[region[lane]]; e < parent_start[region[lane] + 1]; ++e)
                        if (slot_of_edge[e] == static_cast<int32_t>(s)) return p.class_of(p.edge_children[e]);
                    return -1;
                };
                while (todo) {
                    const int c = child_class(__builtin_ctz(todo));
                    uint32_t mask = 0;
                    for (int lane = 0; lane < filled; ++lane)
                        if ((todo >> lane & 1) && child_class(lane) == c) mask |= 1u << lane;
                    const int labels = g.slots[s].labels, part = labels_in_part(g, static_cast<int>(s));
                    for (int from = 0; from < labels; from += part)
                        out.heavy[c].push_back(
                            {static_cast<int>(k), static_cast<int>(s), b, mask, from, std::min(labels, from + part)});
                    todo &= ~mask;
                }
            }
            if (!g.sends) continue;
            for (int lane = 0; lane < filled; ++lane) {
                parents[lane].clear();
                for (int64_t q = child_start[region[lane]]; q < child_start[region[lane] + 1]; ++q) {
                    const int64_t e = edge_of_child[q];
                    const int32_t parent = p.edge_parents[e];
                    const Group& pg = out.groups[group_of[parent]];
                    const SlotView& slot = pg.slots[slot_of_edge[e]];
                    const int64_t lane_of = out.lane_of_region[parent] - pg.first_lane;
                    const int64_t at = slot.messages + lane_of / pg.width * slot.labels * pg.width + lane_of % pg.width;
                    parents[lane].push_back(
                        {group_of[parent], slot_of_edge[e], parent, pg.width, static_cast<unsigned>(at)});
                }
                std::sort(parents[lane].begin(), parents[lane].end(), [](const Parent& a, const Parent& b) {
                    return a.group != b.group ? a.group < b.group
                           : a.slot != b.slot ? a.slot < b.slot
                                              : a.region < b.region;
                });
            }
            uint32_t todo = full;
            while (todo) {
                const int first = __builtin_ctz(todo);
                LightBlock light{};
                light.group = static_cast<int>(k);
                light.block = b;
                const int c = p.class_of(region[first]);
                std::vector<int> widths;  // of parent number j, common to the lanes of this light block
                for (int lane = first; lane < filled; ++lane) {
                    if (!(todo >> lane & 1) || p.class_of(region[lane]) != c) continue;
                    const size_t common = std::min(widths.size(), parents[lane].size());
                    bool fits = true;
                    for (size_t j = 0; j < common && fits; ++j) fits = widths[j] == parents[lane][j].stride;
                    if (!fits) continue;
                    for (size_t j = common; j < parents[lane].size(); ++j) widths.push_back(parents[lane][j].stride);
                    light.mask |= 1u << lane;
                }
                todo &= ~light.mask;
                light.degree = static_cast<int>(widths.size());
                light.edge = static_cast<int64_t>(out.edges.size());
                light.weight = static_cast<int64_t>(out.weights.size());
                const int W = g.width;
                index.assign(static_cast<size_t>(light.degree) * W, no_edge);
                weights.assign(static_cast<size_t>(light.degree + 1) * W, 0.0);
                for (int lane = 0; lane < filled; ++lane) {
                    if (!(light.mask >> lane & 1)) continue;
                    const int32_t r = region[lane];
                    double hat = p.counting_of(r), size = std::abs(hat);
                    for (const Parent& q : parents[lane]) {
                        hat += p.counting_of(q.region);
                        size += std::abs(p.counting_of(q.region));
                    }
                    if (std::abs(hat) <= 1e-12 * size) hat = 0;
                    if (!(hat > 0)) out.positive_hats = false;
                    for (size_t j = 0; j < parents[lane].size(); ++j) {
                        index[j * W + lane] = parents[lane][j].index;
                        weights[j * W + lane] = hat != 0 ? p.counting_of(parents[lane][j].region) / hat
                                                         : 1.0 / (1.0 + static_cast<double>(parents[lane].size()));
                        if (c == last_class) covered[parents[lane][j].region] = 1;
                    }
                    weights[static_cast<size_t>(light.degree) * W + lane] = hat;
                    if (c == last_class) covered[r] = 1;
                }
                for (int j = 0; j < light.degree; ++j) {
                    ParentEdge edge{widths[j], 0, static_cast<int64_t>(out.index.size())};
                    const unsigned* at = index.data() + static_cast<int64_t>(j) * W;
                    for (int first_lane = 0; first_lane < W; first_lane += 8) {
                        const unsigned* eight = at + first_lane;
                        bool contiguous = W > 1 && *eight != no_edge;
                        for (int l = 1; l < 8 && contiguous; ++l) contiguous = eight[l] == *eight + l;
                        if (contiguous) edge.contiguous |= 1u << first_lane / 8;
                        out.index.insert(out.index.end(), eight, eight + (contiguous ? 1 : std::min(W, 8)));
                    }
                    out.edges.push_back(edge);
                }
                // Lanes outside the mask may take any weight: one value serves when the others agree.
                light.weight_uniform = true;
                const int lead = __builtin_ctz(light.mask);
                for (int j = 0; j <= light.degree; ++j)
                    for (int lane = 0; lane < W; ++lane)
                        if ((light.mask >> lane & 1) && weights[j * W + lane] != weights[j * W + lead])
                            light.weight_uniform = false;
                if (light.weight_uniform)
                    for (int j = 0; j <= light.degree; ++j) out.weights.push_back(weights[j * W + lead]);
                else
                    out.weights.insert(out.weights.end(), weights.begin(), weights.end());
                const int number = static_cast<int>(out.lights.size());
                out.lights.push_back(light);
                out.light[c].push_back(number);
                out.all_items.push_back({static_cast<int>(k), b, light.mask, number});
                out.largest_light = std::max(out.largest_light, g.entries * (light.degree + 1) * W);
                out.most_parents = std::max(out.most_parents, light.degree);
            }
        }
    }
    for (size_t k = 0; k < out.groups.size(); ++k)
        if (!out.groups[k].sends)
            for (int b = 0; b < out.groups[k].blocks; ++b) {
                const int filled = std::min(out.groups[k].width, out.groups[k].lanes - b * out.groups[k].width);
                out.all_items.push_back({static_cast<int>(k), b, filled == 32 ? 0xffffffffu : (1u << filled) - 1, -1});
            }
    for (const ValueItem& item : out.all_items) {
        const Group& g = out.groups[item.group];
        uint32_t mask = 0;
        for (int lane = 0; lane < g.width; ++lane)
            if ((item.mask >> lane & 1) &&
                !covered[out.region_of_lane[g.first_lane + static_cast<int64_t>(item.block) * g.width + lane]])
                mask |= 1u << lane;
        if (mask) out.rest_items.push_back({item.group, item.block, mask, item.light});
    }
    for (auto& h : out.heavy) {
        h.shrink_to_fit();
        std::vector<int>& blocks = out.heavy_blocks.emplace_back();
        for (size_t k = 0; k < h.size(); ++k)
            if (k == 0 || h[k].group != h[k - 1].group || h[k].block != h[k - 1].block || h[k].from > 0)
                blocks.push_back(static_cast<int>(k));
        blocks.push_back(static_cast<int>(h.size()));
        blocks.shrink_to_fit();
    }
    out.index.shrink_to_fit(), out.weights.shrink_to_fit(), out.edges.shrink_to_fit(), out.lights.shrink_to_fit();
    out.all_items.shrink_to_fit(), out.rest_items.shrink_to_fit();

    std::vector<int32_t>().swap(out.lane_of_region);

    for (Group& g : out.groups) {
        for (size_t s = 0; s < g.slots.size(); ++s) g.slots[s].strides = g.strides[s].data();
        GroupView v{};
        v.axes = static_cast<int>(g.extents.size());
        v.extents = g.extents.data();
        v.last = g.extents.back();
        v.outer = g.entries / v.last;
        v.entries = g.entries;
        v.lanes = g.lanes;
        v.width = g.width;
        v.blocks = g.blocks;
        v.slots = static_cast<int>(g.slots.size());
        v.slot = g.slots.data();
        v.tables = g.tables;
        v.base = g.base;
        v.first_lane = g.first_lane;
        v.counting = g.counting.data();
        v.counting_uniform = g.uniform;
        v.has_zero = std::find(g.counting.begin(), g.counting.end(), 0.0) != g.counting.end();
        v.sends = g.sends;
        v.in_pieces = g.in_pieces;
        out.views.push_back(v);
    }
    return out;
}

}  // namespace blendfield
