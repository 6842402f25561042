// What the certificate needs to know of the graph: which way each segment takes, and who must agree with whom.
#include <limits>
#include <numeric>
#include <unordered_map>

#include "cpu/certificate.h"
#include "cpu/memory.h"

namespace blendfield {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

// Searching for labels takes memory, too, and follows few certificates: what is quickly found again is let go.
template <class T>
void Problem<T>::release_certificate() {
    if (!prepared_ || !deep_->items.empty()) return;
    const GiveBack memory(child_beliefs_.bytes() + static_cast<int64_t>(child_q_.size() * sizeof(unsigned)));
    prepared_ = false;
    child_items_.clear(), parent_items_.clear(), zero_children_.clear();
    child_beliefs_.reset(0);
    std::vector<unsigned>().swap(child_q_);
    std::vector<unsigned char>().swap(fixed_);
}

// Where parents find the q of their children: children know where their messages are with the parents.
template <class T>
void Problem<T>::find_children() {
    struct Slot {
        int64_t messages;
        int group, slot;
    };
    std::vector<Slot> slots;  // in the order of the messages
    for (size_t k = 0; k < layout_.groups.size(); ++k)
        for (size_t s = 0; s < layout_.groups[k].slots.size(); ++s)
            slots.push_back({layout_.groups[k].slots[s].messages, static_cast<int>(k), static_cast<int>(s)});
    for (const LightBlock& light : layout_.lights) {
        const Group& g = layout_.groups[light.group];
        if (g.extents.size() > 1) continue;
        const int64_t q = q_offset_[light.group] + light.block * g.entries * g.width;
        for (int j = 0; j < light.degree; ++j)
            for (uint32_t rest = light.mask; rest; rest &= rest - 1) {
                const int lane = __builtin_ctz(rest);
                const unsigned at = position(layout_.index.data(), layout_.edges[light.edge + j], lane);
                if (at == no_edge) continue;
                const Slot& of =
                    *std::prev(std::upper_bound(slots.begin(), slots.end(), static_cast<int64_t>(at),
                                                [](int64_t value, const Slot& slot) { return value < slot.messages; }));
                const Group& parent = layout_.groups[of.group];
                const int64_t within = at - of.messages, width = parent.width;
                const int64_t block = within / (width * parent.slots[of.slot].labels);
                const int64_t start = child_start_[of.group] + of.slot * parent.blocks * width;
                child_q_[start + block * width + within % width] = static_cast<unsigned>(q + lane);
                child_width_[of.group][of.slot] = g.width;
            }
    }
}

template <class T>
void Problem<T>::prepare_certificate() {
    prepared_ = true;
    give_back(layout_.bytes());
    const int64_t segments = program_.segments;
    strategy_.assign(segments, two_level);
    for (int64_t e = 0; e < program_.edges; ++e) {
        const int32_t child = program_.edge_children[e];
        if (program_.region_offsets[child + 1] - program_.region_offsets[child] > 1)
            strategy_[program_.segment_of(child)] = projection;
    }
    if (forbidden_) {
        const LaneOfRegion places(layout_);
        for (int64_t r = 0; r < layout_.regions; ++r) {
            const Group& g = layout_.groups[layout_.place(r).group];
            if (!g.forbidden || strategy_[program_.segment_of(r)] == scaling) continue;
            const T* table = tables_.data() + table_at(layout_.place(r));
            for (int64_t e = 0; e < g.entries; ++e)
                if (table[e * g.width] == -infinity) {
                    strategy_[program_.segment_of(r)] = scaling;
                    break;
                }
        }
    }

    deep_ = std::make_shared<Deep>();
    Deep& deep = *deep_;
    const bool any_two_level = std::count(strategy_.begin(), strategy_.end(), two_level) > 0;
    for (const ValueItem& item : layout_.all_items) {
        const Group& g = layout_.groups[item.group];
        uint32_t two = 0, other = 0;
        for (int l = 0; l < g.width; ++l)
            if (item.mask >> l & 1) {
                const int32_t r = layout_.region_of_lane[g.first_lane + static_cast<int64_t>(item.block) * g.width + l];
                (strategy_[program_.segment_of(r)] == two_level ? two : other) |= 1u << l;
            }
        if (two) (g.sends ? child_items_ : parent_items_).push_back({item.group, item.block, two, item.light});
        if (other) deep.items.push_back({item.group, item.block, other, item.light});
    }
    child_items_.shrink_to_fit(), parent_items_.shrink_to_fit();

    const size_t groups = layout_.groups.size();
    q_offset_.assign(groups, 0);
    child_start_.assign(groups, 0);
    child_width_.resize(groups);
    child_width_pointers_.assign(groups, nullptr);
    if (any_two_level) {
        int64_t q_size = 0, slot_lanes = 0;
        for (size_t k = 0; k < groups; ++k) {
            const Group& g = layout_.groups[k];
            const int64_t padded = static_cast<int64_t>(g.blocks) * g.width;
            q_offset_[k] = q_size;
            if (g.sends && g.extents.size() == 1) q_size += padded * g.entries;
            child_start_[k] = slot_lanes;
            slot_lanes += padded * static_cast<int64_t>(g.slots.size());
            child_width_[k].assign(std::max<size_t>(g.slots.size(), 1), 1);
            child_width_pointers_[k] = child_width_[k].data();
        }
        if (q_size >= static_cast<int64_t>(no_edge)) throw std::length_error("too many labels for one certificate");
        child_beliefs_.reset(q_size);
        child_q_.assign(slot_lanes, 0);
        find_children();
        if (!zero_edges_.empty()) {
            fixed_.assign(layout_.lanes, 0);
            const LaneOfRegion places(layout_);
            for_edges(zero_edges_.data(), static_cast<int64_t>(zero_edges_.size()),
                      [&](int64_t e, int64_t, int, int slot) {
                          const int32_t parent = program_.edge_parents[e], child = program_.edge_children[e];
                          if (strategy_[program_.segment_of(child)] != two_level) return;
                          fixed_[layout_.lane(child)] = 1;
                          zero_children_.push_back({child, parent, static_cast<int32_t>(slot)});
                      });
        }
    }
    if (deep.items.empty()) return;

    // Everything below concerns the segments that need more than rounding.
    const LaneOfRegion places(layout_);
    deep.number.assign(layout_.regions, -1);
    std::vector<int32_t> order;
    for (int64_t r = 0; r < layout_.regions; ++r)
        if (strategy_[program_.segment_of(r)] != two_level) order.push_back(static_cast<int32_t>(r));
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {  // small regions first
        return layout_.groups[layout_.place(a).group].extents.size() <
               layout_.groups[layout_.place(b).group].extents.size();
    });
    for (int32_t r : order) {
        deep.number[r] = static_cast<int32_t>(deep.regions.size());
        deep.regions.push_back({r, deep.entries, 0, 0, 0, 0});
        deep.entries += layout_.groups[layout_.place(r).group].entries;
    }
    std::vector<std::vector<typename Deep::Child>> children(deep.regions.size());
    std::unordered_map<uint64_t, int32_t> node_number;
    std::vector<int32_t> leader;
    std::vector<std::pair<int32_t, uint32_t>> raw;  // (deep region, mask)
    auto node = [&](int32_t number, uint32_t mask) {
        const auto [found, fresh] =
            node_number.try_emplace(static_cast<uint64_t>(number) << 32 | mask, static_cast<int32_t>(raw.size()));
        if (fresh) {
            raw.emplace_back(number, mask);
            leader.push_back(found->second);
        }
        return found->second;
    };
    auto find = [&](int32_t x) {
        while (leader[x] != x) x = leader[x] = leader[leader[x]];
        return x;
    };
    std::vector<uint8_t> zero_done(deep.regions.size(), 0);
    for_edges([&](int64_t e, int64_t, int, int slot) {
        const int32_t parent = deep.number[program_.edge_parents[e]], child = deep.number[program_.edge_children[e]];
        if (parent < 0) return;
        const Group& pg = layout_.groups[layout_.place(program_.edge_parents[e]).group];
        const uint32_t mask = pg.slot_masks[slot];
        children[parent].push_back({child, mask});
        if (program_.counting_of(program_.edge_children[e]) == 0 && !zero_done[child]) {
            zero_done[child] = 1;
            deep.zero.push_back(child);
            deep.zero_parent.push_back({parent, mask});
        }
        if (strategy_[program_.segment_of(program_.edge_children[e])] != projection) return;
        const int axes = __builtin_popcount(mask);
        // An axis with one label constrains nothing; those axes come first.
        const int single = static_cast<int>(std::count(pg.extents.begin(), pg.extents.end(), 1));
        const int skipped = __builtin_popcount(mask & ((uint64_t{1} << single) - 1));
        for (uint64_t chosen = 1; chosen < uint64_t{1} << (axes - skipped); ++chosen) {
            const auto subset = static_cast<uint32_t>(chosen << skipped);
            uint32_t in_parent = 0, rest = mask;
            for (int k = 0; k < axes; ++k, rest &= rest - 1)
                if (subset >> k & 1) in_parent |= rest & -rest;
            const int32_t a = find(node(parent, in_parent)), b = find(node(child, subset));
            leader[std::max(a, b)] = std::min(a, b);
        }
    });
    // Nodes in the order of their regions, subsets from many axes to few: marginals are taken from marginals.
    std::vector<int32_t> sorted(raw.size()), component(raw.size(), -1);
    std::iota(sorted.begin(), sorted.end(), 0);
    std::sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
        const int size_a = __builtin_popcount(raw[a].second), size_b = __builtin_popcount(raw[b].second);
        if (raw[a].first != raw[b].first) return raw[a].first < raw[b].first;
        return size_a != size_b ? size_a > size_b : raw[a].second < raw[b].second;
    });
    int32_t components = 0;
    std::vector<int64_t> count;
    for (int32_t k : sorted) {
        const int32_t root = find(k);
        if (component[root] < 0) component[root] = components++, count.push_back(0);
        component[k] = component[root];
        ++count[component[k]];
        const Group& g = layout_.groups[layout_.place(deep.regions[raw[k].first].region).group];
        const int axes = static_cast<int>(g.extents.size());
        const uint32_t mask = raw[k].second;
        const int64_t size = Projected(g.extents.data(), axes, mask).size;
        int64_t source = -1;
        for (int64_t n = static_cast<int64_t>(deep.nodes.size()) - 1; n >= 0 && deep.node_region[n] == raw[k].first;
             --n)
            if ((deep.nodes[n].mask & mask) == mask && (source < 0 || deep.nodes[n].size < deep.nodes[source].size))
                source = n;
        uint32_t within = mask;
        if (source >= 0) {
            within = 0;
            for (int a = 0, position = 0; a < axes; ++a)
                if (deep.nodes[source].mask >> a & 1) within |= (mask >> a & 1) << position++;
        }
        deep.nodes.push_back({mask, size, deep.marginals, component[k], source, within});
        deep.node_region.push_back(raw[k].first);
        deep.marginals += size;
    }
    deep.component_start.assign(components + 1, 0);
    std::partial_sum(count.begin(), count.end(), deep.component_start.begin() + 1);
    deep.component_nodes.resize(deep.nodes.size());
    std::vector<int64_t> fill(deep.component_start.begin(), deep.component_start.end() - 1);
    for (size_t k = 0; k < deep.nodes.size(); ++k)
        deep.component_nodes[fill[deep.nodes[k].component]++] = static_cast<int32_t>(k);
    size_t next = 0;
    for (size_t d = 0; d < deep.regions.size(); ++d) {
        deep.regions[d].first_node = static_cast<int64_t>(next);
        while (next < deep.nodes.size() && deep.node_region[next] == static_cast<int32_t>(d)) ++next;
        deep.regions[d].last_node = static_cast<int64_t>(next);
        deep.regions[d].first_child = static_cast<int64_t>(deep.children.size());
        deep.children.insert(deep.children.end(), children[d].begin(), children[d].end());
        deep.regions[d].last_child = static_cast<int64_t>(deep.children.size());
    }
}

template void Problem<double>::prepare_certificate();
template void Problem<float>::prepare_certificate();
template void Problem<double>::find_children();
template void Problem<float>::find_children();
template void Problem<double>::release_certificate();
template void Problem<float>::release_certificate();

}  // namespace blendfield
