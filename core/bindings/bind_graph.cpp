#include "bindings/bindings.h"

namespace blendfield {
void bind_graph(nanobind::module_&) {}
}  // namespace blendfield
