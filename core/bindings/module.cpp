// The Python module blendfield._core: views and checks, no arithmetic. One bind_*.cpp per room of core/.
#include "bindings/bindings.h"

NB_MODULE(_core, m) {
    m.doc() = "The compiled core of blendfield.";
    blendfield::bind_graph(m);
    blendfield::bind_cpu(m);
    blendfield::bind_features(m);
    blendfield::bind_inference(m);
}
