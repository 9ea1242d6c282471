#include "cache/tier/kv_state_file.h"

#include <memory>
#include <utility>

#include "base/check.h"

namespace ibid {

namespace {

size_t n_states_of(const KvLayout& layout, size_t position) { return position == 0 ? 0 : layout.n_states(); }

size_t n_blocks_of_state(const KvLayout& layout, size_t position, size_t n_rows) {
  return n_states_of(layout, position) + n_rows;
}

size_t blocks_bytes_of_state(const KvLayout& layout, size_t position, size_t n_rows) {
  return (position == 0 ? 0 : layout.state_bytes()) + n_rows * layout.state_row_floats() * sizeof(float);
}

// Returns the bytes of one layer within a state.
template <typename Byte>
std::span<Byte> layer_of_state(const KvLayout& layout, Byte* state, size_t layer) {
  const size_t begin = layout.state_offset(layer) * sizeof(float);
  const size_t end =
      layer + 1 == layout.n_states() ? layout.state_bytes() : layout.state_offset(layer + 1) * sizeof(float);
  return {state + begin, end - begin};
}

}  // namespace

size_t kv_state_header_bytes(const KvLayout& layout, size_t position, size_t n_rows) {
  return kv_record_header_bytes(position % kPagePositions + n_rows, n_blocks_of_state(layout, position, n_rows));
}

size_t kv_state_record_bytes(const KvLayout& layout, size_t position, size_t n_rows) {
  return kv_state_header_bytes(layout, position, n_rows) + blocks_bytes_of_state(layout, position, n_rows);
}

std::array<std::span<const std::byte>, 2> kv_state_blocks(const KvLayout& layout, const StateSnapshot& snapshot,
                                                          const std::byte* state) {
  std::array<std::span<const std::byte>, 2> blocks;
  if (snapshot.position > 0) blocks[0] = {state, layout.state_bytes()};
  if (snapshot.n_rows > 0) {
    blocks[1] = std::as_bytes(std::span(snapshot.rows->row(0), snapshot.n_rows * layout.state_row_floats()));
  }
  return blocks;
}

std::vector<std::byte> encode_kv_state_header(const KvLayout& layout, const KvRecordInfo& info,
                                              const StateSnapshot& snapshot, const std::byte* state) {
  const KvRecordHeader what{.kind = KvRecordKind::kState,
                            .identity = info.identity,
                            .first_position = snapshot.position,
                            .n_rows = snapshot.n_rows,
                            .before = info.text.before,
                            .writer = info.writer};
  std::vector<std::span<const std::byte>> blocks;
  for (size_t layer = 0; layer < n_states_of(layout, snapshot.position); ++layer) {
    blocks.push_back(layer_of_state(layout, state, layer));
  }
  for (size_t i = 0; i < snapshot.n_rows; ++i) {
    blocks.push_back(std::as_bytes(std::span(snapshot.rows->row(i), layout.state_row_floats())));
  }
  return encode_kv_record_header(what, info.text.page_ids, blocks);
}

Result<KvStateCheck> KvStateCheck::open(std::span<const std::byte> header, const KvLayout& layout,
                                        const KvPageIdentity& identity, const KvRecordText& text) {
  KvStateCheck check;
  TRY_ASSIGN(check.record_, KvRecordCheck::open(header, KvRecordKind::kState, identity, text));
  const KvRecordHeader& found = check.header();
  if (layout.n_states() == 0 || found.block_bytes != 0 ||
      found.n_blocks != n_blocks_of_state(layout, found.first_position, found.n_rows) ||
      found.record_bytes - found.header_bytes != blocks_bytes_of_state(layout, found.first_position, found.n_rows)) {
    return kv_record_mismatch("layout");
  }
  if (text.page_ids.size() < found.first_position % kPagePositions) return kv_record_mismatch("text");
  return check;
}

Result<StateSnapshot> KvStateCheck::read_snapshot(KvPagePool& pool, size_t n_rows, const Read& read) const {
  CHECK_LE(n_rows, header().n_rows);
  const KvLayout& layout = pool.layout();
  StateSnapshot snapshot{header().first_position, KvPage(), nullptr, n_rows};
  uint64_t offset = header().header_bytes;
  size_t index = 0;
  const auto read_block = [&](std::span<std::byte> block) -> Status {
    TRY(read(offset, block));
    offset += block.size();
    return record_.check_block(index++, block);
  };
  if (snapshot.position > 0) {
    TRY_ASSIGN(std::vector<KvPage> state, pool.allocate_states(1));
    for (size_t layer = 0; layer < layout.n_states(); ++layer) {
      TRY(read_block(layer_of_state(layout, state.front().data(), layer)));
    }
    snapshot.state = std::move(state.front());
  }
  if (n_rows > 0) {
    const auto rows = std::make_shared<StateRows>(n_rows, layout.state_row_floats());
    for (size_t i = 0; i < n_rows; ++i) {
      TRY(read_block(std::as_writable_bytes(std::span(rows->row(i), layout.state_row_floats()))));
    }
    snapshot.rows = rows;
  }
  return snapshot;
}

}  // namespace ibid
