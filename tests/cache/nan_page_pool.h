// NanPagePool: allocates pages filled with 0xff (NaN as floats), so that tests detect reads of unwritten positions.
// Unlike in real pages, the padding of heads whose size is not a multiple of 16 is not zero.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "cache/pages/kv_page_pool.h"

namespace ibid {

class NanPagePool : public KvPagePool {
 public:
  using KvPagePool::allocate;
  using KvPagePool::KvPagePool;

  Result<std::vector<KvPage>> allocate(size_t n_pages) override {
    TRY_ASSIGN(std::vector<KvPage> pages, KvPagePool::allocate(n_pages));
    for (const KvPage& page : pages) {
      const PageMemory parts = page.parts();
      std::memset(parts.all, 0xff, layout().part_bytes(PagePart::kAll));
      if (parts.window != nullptr) std::memset(parts.window, 0xff, layout().part_bytes(PagePart::kWindow));
    }
    return pages;
  }
};

}  // namespace ibid
