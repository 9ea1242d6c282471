// TensorEncoder: rows of a tensor in another type, shared among threads. Not thread-safe itself.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "apps/convert/conversion_source.h"
#include "base/parallel.h"
#include "base/result.h"

namespace ibid {

class TensorEncoder {
 public:
  // `path` names the model in messages. `team` must outlive the object.
  TensorEncoder(ThreadTeam& team, std::string path) : team_(team), path_(std::move(path)) {}

  // Rows [first, first + n) of the job's tensor in its type; valid until the next call, or as long as the
  // file where nothing has to be done. Errors: kNonFinite (a value that is not finite, or that the type cannot hold).
  Result<std::span<const std::byte>> encode(const ConversionJob& job, uint64_t first, uint64_t n);

 private:
  Status not_finite(const ConversionJob& job) const;
  bool encode_share(const ConversionJob& job, uint64_t first, Range own);

  ThreadTeam& team_;
  std::string path_;
  std::vector<std::byte> out_;
};

}  // namespace ibid
