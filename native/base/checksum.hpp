// CRC-32 as zlib has it, of frames between peers and of what brokers store: at memory speed where the processor multiplies without carry.
#pragma once

#include <cstdint>
#include <string_view>

namespace treecast {

// Of `data` behind something whose checksum is `before`.
uint32_t crc32(std::string_view data, uint32_t before = 0);
// The same without those instructions; both are there for tests.
uint32_t crc32_scalar(std::string_view data, uint32_t before = 0);

}  // namespace treecast
