// JSON of raw bytes: what is read and printed is read as the same, and the shard index of a checkpoint.
#include "base/check.h"
#include "base/json_limits.h"
#include "tests/fuzz/script.h"
#include "weights/shard_index.h"

namespace ibid::fuzz {

void json(Input input) {
  const std::string_view text = text_of(input);
  const auto index = parse_shard_index(text, "input");
  const Result<Json> value = parse_json(text, "input", {.max_depth = 16});
  if (!value.ok()) {
    CHECK(value.status().message().starts_with("input: ")) << value.status().message();
    CHECK(!index.ok());
    return;
  }
  const std::string printed = json_to_string(*value);
  const Result<Json> again = parse_json(printed, "again", {.max_depth = 16});
  CHECK(again.ok()) << again.status().message() << ": " << printed;
  CHECK(json_to_string(*again) == printed);
}

}  // namespace ibid::fuzz
