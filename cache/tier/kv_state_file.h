// The record of a place to go on from (StateSnapshot, cache/tier/kv_record.h): the state behind first_position ids, and
// what each of the n_rows ids behind them gave to it. It has a block for each recurrent layer, as a state lies in
// memory, and one for each row. Where first_position is 0 there is no state: it is zero.
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

// What stands in a record behind the header: the state, and the rows. state: as below.
std::array<std::span<const std::byte>, 2> kv_state_blocks(const KvLayout& layout, const StateSnapshot& snapshot,
                                                          const std::byte* state);

// What a record begins with; kv_state_blocks() follow. ids: the first snapshot.end() of the sequence. state: that of
// the snapshot, or a copy of it; null at position 0.
std::vector<std::byte> encode_kv_state_header(const KvLayout& layout, const KvPageIdentity& identity, TokenSpan ids,
                                              const StateSnapshot& snapshot, const std::byte* state);

// The header of a record, after it was verified and found to be the wanted one.
class KvStateCheck {
 public:
  // header: the whole header. ids: what the record's first ids must be; they reach its position at least, and the
  // record may have more.
  // Errors: those of KvRecordCheck::open(); kMismatch when it is of another layout.
  static Result<KvStateCheck> open(std::span<const std::byte> header, const KvLayout& layout,
                                   const KvPageIdentity& identity, TokenSpan ids);

  const KvRecordHeader& header() const { return record_.header(); }

  using Read = std::function<Status(uint64_t offset, std::span<std::byte> bytes)>;
  // Reads the state and the first n_rows rows, block by block, into fresh memory, and verifies them: read(offset,
  // bytes) fills `bytes` with what stands at an offset of the record. Errors: read's; kCorrupt; kOutOfMemory. REQUIRES:
  // the bytes of open() still live; n_rows <= header().n_rows; the pool's layout is that of open().
  Result<StateSnapshot> read_snapshot(KvPagePool& pool, size_t n_rows, const Read& read) const;

 private:
  KvRecordCheck record_;
};

}  // namespace ibid
