#include "bindings.hpp"

namespace treecast {
void bind_index(nb::module_&) {}
}  // namespace treecast
