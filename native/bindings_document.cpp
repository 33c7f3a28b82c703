#include "bindings.hpp"

namespace treecast {
void bind_document(nb::module_&) {}
}  // namespace treecast
