// The interpreter: runs a Program. What it takes and returns; the work is Executor's, for statements, and
// Evaluator's, for expressions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "base/result.h"
#include "templates/jinja/checkpoint.h"
#include "templates/jinja/program.h"

namespace ibid::jinja {

struct RunInput {
  const Json* messages = nullptr;   // nullptr: a plain render, in which no variable is special
  const Json* variables = nullptr;  // an object
  const Json* defaults = nullptr;   // an object of what the model's files define; may be nullptr
  bool generation_prompt = false;   // with messages: the variable add_generation_prompt
  std::string_view now;             // ISO 8601
  TemplateBudget budget;
  // --- Incremental renders. `resume` must be usable() for `messages`; its JSON values point into `variables`
  // and `defaults`, which must be the same objects as when it was taken.
  const Checkpoint* resume = nullptr;
  bool take_checkpoints = false;
};

struct RunOutput {
  MarkedText text;  // what was printed; of a resumed run, after the checkpoint
  std::vector<Checkpoint> checkpoints;
  size_t message_iterations = 0;  // iterations of loops over the messages
  uint64_t steps = 0;
};

// The border of the engine: nothing is thrown.
// Errors: kTemplateError, kTemplateRaise (the template's own words), kTemplateBudget.
Result<RunOutput> run(const Program& program, const RunInput& input);

}  // namespace ibid::jinja
