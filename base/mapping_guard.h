// MappingGuard: keeps the process alive when a mapped file loses pages while it is being read, because somebody
// truncates it or the disk fails. The kernel answers such a read with SIGBUS, which would end the process.
//
// While guards live, a handler of SIGBUS puts zeros in place of the lost pages of guarded mappings. So the read
// goes on, and its owner can say what happened (lost()). Every other SIGBUS goes to the handler that was installed
// before, or ends the process as ever. When the last guard goes, the old handler comes back.
//
// It reads no files and owns no mapping. Guards may be made and dropped on any thread.
#pragma once

#include <cstddef>

namespace ibid {

class MappingGuard {
 public:
  MappingGuard() = default;  // guards nothing
  // Guards the pages of [data, data + size), a private mapping for reading. It must be dropped before the mapping is.
  MappingGuard(const std::byte* data, size_t size);
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;
  ~MappingGuard();

  // Whether a page was lost, and zeros were read in its place.
  bool lost() const;

 private:
  struct Slot;
  struct Registry;

  Slot* slot_ = nullptr;
};

}  // namespace ibid
