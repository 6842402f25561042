#pragma once
#include <nanobind/nanobind.h>

namespace blendfield {
void bind_graph(nanobind::module_& m);
void bind_cpu(nanobind::module_& m);
void bind_features(nanobind::module_& m);
void bind_inference(nanobind::module_& m);
}  // namespace blendfield
