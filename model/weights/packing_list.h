// PackingList: collects matrices, and packs all of them in one parallel region.
//
// Each thread repeatedly takes the next window of the packed memory, whichever matrices are in it, for two reasons. The
// first touch of memory waits while the OS clears the memory, for an unpredictable time; and two threads that first
// touch the same huge page clear it twice. Each byte is written once, by one thread, so the result does not depend on
// which thread takes which window.
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
  // Adds a matrix of `tensor`, to be packed to packed.data as packed.type. `order` selects its rows or, if transposed,
  // its columns; `tiles` are heads to reorder first. `name` is for messages. The tensor's bytes must outlive the list.
  // REQUIRES: packed.data is writable, 64-byte aligned, and after that of all earlier calls; transposed tensors are
  // floats; packed.type is kPF if the heads in the columns cannot be reordered block by block.
  void add(std::string name, const TensorView& tensor, RowOrder order, bool transposed, const PackedMatrix& packed,
           const TiledHeads& tiles = {});

  // Packs all matrices. Calls `done`, on any of the threads, with ranges of rows that were packed, and with each tensor
  // after its last row. Error: kNonFinite, naming the first tensor with a float, or a scale or min of a block, that is
  // not finite.
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
  static size_t bytes_of_row(const Job& job);
  // Returns false if a float or a scale is not finite.
  static bool pack(const Job& job, Range panels);
  // Returns the range of the tensor's rows from which the panels are packed, with all rows in between. REQUIRES: the
  // tensor is stored by row.
  static TensorView rows_of(const Job& job, Range panels);

  uintptr_t origin_ = 0;  // address of the first window, a multiple of kWindowBytes
  std::vector<Job> jobs_;
};

}  // namespace ibid
