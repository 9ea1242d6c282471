// NanPagePool: hands out pages filled with ones, which as floats are NaN, so that whoever reads rows that nobody wrote
// shows. The product's pages are zero; so is the padding of heads whose size is no multiple of 16, which is lost here.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "cache/pages/kv_page_pool.h"

namespace ibid {

class NanPagePool : public KvPagePool {
 public:
  using KvPagePool::KvPagePool;
  using KvPagePool::allocate;

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
