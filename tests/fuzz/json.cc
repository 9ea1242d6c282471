// JSON from raw bytes: a parsed document is equal after writing and parsing it again, also with the floats that Python
// writes. Also the shard index of a checkpoint.
#include "base/check.h"
#include "base/json_limits.h"
#include "tests/fuzz/script.h"
#include "weights/model_json.h"
#include "weights/safetensors_header.h"

namespace ibid::fuzz {

namespace {

void check_printed(const Json& value) {
  const std::string printed = json_to_string(value);
  const Result<Json> again = parse_json(printed, "again", {.max_depth = 16});
  CHECK(again.ok()) << again.status().message() << ": " << printed;
  CHECK(json_to_string(*again) == printed);
}

}  // namespace

void json(Input input) {
  const std::string_view text = text_of(input);
  const auto index = parse_shard_index(text, "input");
  const Result<Json> value = parse_json(text, "input", {.max_depth = 16});
  const Result<Json> of_model = parse_model_json(text, "input", {.max_depth = 16});
  if (of_model.ok()) check_printed(*of_model);
  if (!value.ok()) {
    CHECK(value.status().message().starts_with("input: ")) << value.status().message();
    CHECK(!index.ok());
    return;
  }
  check_printed(*value);
  CHECK(of_model.ok() && *of_model == *value);
}

}  // namespace ibid::fuzz
