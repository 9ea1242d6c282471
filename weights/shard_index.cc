#include "weights/shard_index.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json_limits.h"
#include "weights/in_quotes.h"

namespace ibid {

namespace {

// Each is an open file and a mapping; the largest public models have fewer than 200.
constexpr size_t kMaxShards = 4096;

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view what) {
  const std::string file(what);
  TRY_ASSIGN(const Json root, parse_json(text, what, {.max_depth = 8, .max_values = 1'000'000}));
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object()) {
    return Status(ErrorCode::kBadHeader, file + ": has no object 'weight_map'");
  }
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      return Status(ErrorCode::kBadHeader, file + ": the shard of tensor " + in_quotes(tensor) + " is " +
                                               shard.type_name() + ", wanted a string");
    }
    by_file[shard.get_ref<const std::string&>()].push_back(tensor);
    if (by_file.size() > kMaxShards) {
      return Status(ErrorCode::kLimitExceeded,
                    file + ": names more than " + std::to_string(kMaxShards) + " shards");
    }
  }
  ShardIndex index;
  for (auto& [name, tensors] : by_file) {
    std::sort(tensors.begin(), tensors.end());
    index.shards.push_back({name, std::move(tensors)});
  }
  if (const auto metadata = root.find("metadata"); metadata != root.end() && metadata->is_object()) {
    const auto total = metadata->find("total_size");
    if (total != metadata->end() && total->is_number_unsigned()) index.total_bytes = total->get<uint64_t>();
  }
  return index;
}

}  // namespace ibid
