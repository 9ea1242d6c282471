#include "model/config/model_options.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/parallel.h"

namespace ibid {

size_t rows_for_cache(size_t cache_bytes) {
  if (cache_bytes == 0) cache_bytes = size_t{1} << 20;
  return std::clamp<size_t>(cache_bytes >> 12, 128, 512);  // one row for every 4 KiB
}

size_t default_max_chunk() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return rows_for_cache(bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

Status check_model_options(const ModelOptions& options) {
  const auto out_of_range = [](const char* name, const std::string& value, const std::string& range) {
    return Status(ErrorCode::kInvalidArgument, std::string(name) + ": " + value + ", allowed: " + range);
  };
  if (options.n_threads < 0 || options.n_threads > kMaxThreads) {
    return out_of_range("n_threads", std::to_string(options.n_threads),
                        "1 to " + std::to_string(kMaxThreads) + ", or 0 for one per core");
  }
  if (options.max_seq_len > kMaxContext) {
    return out_of_range("max_seq_len", std::to_string(options.max_seq_len),
                        "1 to " + std::to_string(kMaxContext) + ", or 0 for the trained context");
  }
  if (options.max_chunk < 1 || options.max_chunk > kMaxContext) {
    return out_of_range("max_chunk", std::to_string(options.max_chunk), "1 to " + std::to_string(kMaxContext));
  }
  if (options.numerics > Numerics::kFast) {
    return out_of_range("numerics", std::to_string(static_cast<int>(options.numerics)), "a value of Numerics");
  }
  if (options.kv_dtype > KvDType::kInt4) {
    return out_of_range("kv_dtype", std::to_string(static_cast<int>(options.kv_dtype)), "a value of KvDType");
  }
  return {};
}

}  // namespace ibid
