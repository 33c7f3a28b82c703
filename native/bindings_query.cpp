#include "bindings.hpp"

namespace treecast {
void bind_query(nb::module_&) {}
}  // namespace treecast
