// The record of a StateSnapshot (cache/tier/kv_record.h): the state after first_position tokens, and the row that each
// of the n_rows tokens after it adds. The record has a block for each recurrent layer, as in memory, and one for each
// row. At first_position 0 there are no state blocks, because the state is zero.
//
// Pure functions of bytes: no files, no locks. They throw nothing but std::bad_alloc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/pages/sequence_state.h"
#include "cache/tier/kv_record.h"
#include "ibid/token.h"

namespace ibid {

size_t kv_state_header_bytes(const KvLayout& layout, size_t position, size_t n_rows);
size_t kv_state_record_bytes(const KvLayout& layout, size_t position, size_t n_rows);

// Returns the two pieces that follow the header in a record: the state, and the rows. state: as in
// encode_kv_state_header().
std::array<std::span<const std::byte>, 2> kv_state_blocks(const KvLayout& layout, const StateSnapshot& snapshot,
                                                          const std::byte* state);

// Returns the header of a record; kv_state_blocks() follow it. info: its text ends at snapshot.end(). state: the bytes
// of the snapshot's state, or of a copy; null at position 0.
std::vector<std::byte> encode_kv_state_header(const KvLayout& layout, const KvRecordInfo& info,
                                              const StateSnapshot& snapshot, const std::byte* state);

// A verified header that matches the wanted identity.
class KvStateCheck {
 public:
  // header: the whole header. text: as in KvRecordCheck::open(), with all tokens up to the position of the state.
  // Errors: those of KvRecordCheck::open(); kMismatch if the record is of another layout.
  static Result<KvStateCheck> open(std::span<const std::byte> header, const KvLayout& layout,
                                   const KvPageIdentity& identity, const KvRecordText& text);

  const KvRecordHeader& header() const { return record_.header(); }

  using Read = std::function<Status(uint64_t offset, std::span<std::byte> bytes)>;
  // Reads the state and the first n_rows rows, block by block, into new memory, and verifies them: read(offset, bytes)
  // fills `bytes` from an offset of the record. Errors: those of read(); kCorrupt; kOutOfMemory. REQUIRES: the header
  // bytes that were passed to open() still exist; n_rows <= header().n_rows; the pool's layout is that of open().
  Result<StateSnapshot> read_snapshot(KvPagePool& pool, size_t n_rows, const Read& read) const;

 private:
  KvRecordCheck record_;
};

}  // namespace ibid
