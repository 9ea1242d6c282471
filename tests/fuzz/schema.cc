// Untrusted JSON Schemas. Texts of their grammars are JSON.
#include <optional>
#include <string>

#include "base/check.h"
#include "base/json_limits.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar.h"
#include "tests/fuzz/grammar_laws.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

void schema(Input input) {
  Script script(input);
  const uint8_t options = script.byte();
  const JsonFormat format{
      .compact = options % 2 != 0, .strict = options / 2 % 2 != 0, .for_answers = options / 4 % 2 != 0};
  // One input in 32 may use the whole budget: such inputs are a thousand times as slow as the others.
  CompileBudget budget({}, {.max_work = options / 8 == 31 ? CompileBudget::Limits{}.max_work : 1'000'000});
  const auto text = check_grammar(compile_json_schema(text_of(script.rest()), format, &budget), options);
  if (!text) return;
  const Status status =
      parse_json(*text, "a text of the schema", {.max_depth = kMaxJsonDepth, .allow_duplicate_keys = true}).status();
  CHECK(status.ok() || status.code() == ErrorCode::kBadNumber) << status.message();
}

}  // namespace ibid::fuzz
