// PackingList: collects matrices, and packs all of them in one parallel region.
//
// Threads take windows of the packed memory one by one, whichever matrices they contain, for two reasons. The first
// touch of memory waits while the OS clears it, for an unpredictable time; and two threads that first touch the same
// huge page clear it twice. Each byte is written once, by one thread, so the result does not depend on the assignment.
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
  // Adds a matrix of `tensor`, to be packed to packed.data as packed.type: its rows in this order or, if transposed,
  // its columns; `tiles` are heads to reorder first. `name` is for messages. The tensor's bytes must outlive the list.
  // REQUIRES: packed.data is writable, 64-byte aligned, and follows that of all earlier calls; transposed tensors are
  // floats; if blocks cannot be reordered by the columns' heads, packed.type is kPF.
  void add(std::string name, const TensorView& tensor, RowOrder order, bool transposed, const PackedMatrix& packed,
           const TiledHeads& tiles = {});

  // Packs all matrices. Calls `done` once per matrix, after its last row, on any of the threads. Error: kNonFinite (a
  // float, or the scale or min of a block, is not finite), naming the first such tensor.
  Status run(ThreadTeam& team, const std::function<void(const TensorView&)>& done) const;

 private:
  struct Job {
    std::string name;
    TensorView tensor;
    RowOrder order;
    bool transposed;
    PackedMatrix packed;
    TiledHeads tiles;
    size_t begin, end;  // byte range, relative to origin_
    size_t panel_stride;
  };
  // Returns false if a float or a scale is not finite.
  static bool pack(const Job& job, Range panels);

  uintptr_t origin_ = 0;  // address at a multiple of kWindowBytes
  std::vector<Job> jobs_;
};

}  // namespace ibid
