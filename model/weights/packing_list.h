// PackingList: collects matrices, and packs all of them in one parallel region.
//
// Each thread takes one window of the packed memory after the other, whatever matrices it belongs to. There are two
// reasons. The first to touch memory waits for the system to clear it, for a time that nobody can know before; and
// two threads that touch the same huge page at once clear it twice. Each byte is written once, by one thread, so
// the result does not depend on who took what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "base/tensor_view.h"
#include "kernels/layout/panel.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

class PackingList {
 public:
  // A matrix of `tensor`, whose name is for messages, goes to packed.data as packed.type: its rows in this order or,
  // transposed, its columns; `tiles` are heads that change places before. The tensor's bytes must outlive the
  // list.
  // REQUIRES: packed.data is writable, 64-byte aligned, and lies behind that of all calls before; transposed tensors
  // are floats; a type whose blocks do not fit the columns' heads is packed as kPF.
  void add(std::string name, const TensorView& tensor, RowOrder order, bool transposed,
           const PackedMatrix& packed, const TiledHeads& tiles = {});

  // Packs everything. `done` is called once per matrix, after its last row, on any of the threads. Error:
  // kNonFinite, of floats and of blocks whose scale or min is not finite, naming the first such tensor.
  Status run(ThreadTeam& team, const std::function<void(const TensorView&)>& done) const;

 private:
  struct Job {
    std::string name;
    TensorView tensor;
    RowOrder order;
    bool transposed;
    PackedMatrix packed;
    TiledHeads tiles;
    size_t begin, end;  // of its bytes, behind origin_
    size_t panel_stride;
  };
  // False where a float or a scale is not finite.
  static bool pack(const Job& job, Range panels);

  uintptr_t origin_ = 0;     // an address on the edge of a window
  std::vector<Job> jobs_;
};

}  // namespace ibid
