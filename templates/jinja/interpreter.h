// The interpreter: compiles a template to a Program and runs it, from a checkpoint if one is given. Executor runs
// statements, Evaluator evaluates expressions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "base/result.h"
#include "templates/jinja/ast.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/state.h"
#include "templates/jinja/template_budget.h"

namespace ibid::jinja {

// --- Program: a parsed template. Immutable; several threads may run it at once.

class Program {
 public:
  // Errors: kTemplateSyntax with the line (also for unknown filters and tests that Jinja reports at compile time),
  // kTemplateBudget for nesting beyond budget.max_depth or a source beyond kMaxSourceBytes.
  static Result<Program> compile(std::string_view source, const TemplateBudget& budget);

  const Body& body() const { return body_; }
  const std::string& name(Symbol symbol) const { return names_[symbol]; }
  size_t n_names() const { return names_.size(); }

  static constexpr size_t kMaxSourceBytes = 512u << 10;  // templates of models have at most 20 KB
  static constexpr Symbol kLoopSymbol = 0;               // names_[0] is "loop"
  static constexpr Symbol kCallerSymbol = 1;             // names_[1] to names_[3] are "caller", "varargs" and "kwargs"
  static constexpr Symbol kVarargsSymbol = 2;
  static constexpr Symbol kKwargsSymbol = 3;

 private:
  Body body_;
  std::vector<std::string> names_;
};

// --- Checkpoint: the state of a render between two iterations of an outermost loop over the messages, from which a
// later render of the same, longer conversation resumes. A checkpoint is small: it has indices of messages in place of
// messages, and shares unchanged parts with the previous checkpoint. It is usable() only if everything that the
// template read before it is unchanged.

// One step of a path to a statement: the index of a statement in its body and, if the statement is an {% if %}, of the
// branch to follow.
struct PathStep {
  size_t index = 0;
  size_t branch = 0;
};
using Path = std::vector<PathStep>;
using Namespaces = std::vector<std::shared_ptr<const Attributes>>;

struct Checkpoint {
  std::shared_ptr<const Path> path;            // position of the loop in the template
  std::shared_ptr<const Variables> variables;  // variables of the outermost frame
  std::shared_ptr<const Namespaces> namespaces;
  MessageReads reads;
  bool generation_prompt = false;  // value of add_generation_prompt at the checkpoint
  size_t position = 0;             // index of the next message
  size_t iterations = 0;           // iterations of the loop so far
  bool completed = false;  // value of LoopObject::completed: an iteration ended without {% break %} or {% continue %}
  int64_t last_message = -1;  // index of the last iterated message, for loop.previtem
  size_t output_bytes = 0;    // bytes printed so far

  bool usable(size_t n_unchanged, size_t n_messages, bool with_generation_prompt) const {
    return reads.messages <= n_unchanged && reads.known_length <= n_messages &&
           (!reads.generation_prompt || generation_prompt == with_generation_prompt);
  }
};

// Returns `value` with pointers into the messages replaced by indices; nullopt if `value` cannot outlive its render.
std::optional<Value> persist(RenderState& state, const Value& value);
// The inverse of persist(): replaces indices by the elements of `messages`.
Value revive(const Json& messages, const Value& value);

// Takes checkpoints of one loop.
class CheckpointRecorder {
 public:
  CheckpointRecorder(RenderState& state, const Path& path, bool generation_prompt, std::vector<Checkpoint>& out);

  // Call at the end of an iteration that is not the last of `loop`. `output_bytes`: bytes printed so far.
  void record(const LoopObject& loop, size_t output_bytes);

 private:
  // Maximum bytes of text that one iteration may add to namespaces; an iteration that adds more gets no checkpoint.
  // Without this limit, a template that collects the conversation in a namespace would use quadratic memory.
  static constexpr size_t kMaxNewBytes = 4096;
  static constexpr size_t kMaxNamespaces = 64;

  bool snapshot_namespaces();
  size_t new_bytes(const Attributes* before, const Attributes& now) const;

  RenderState& state_;
  std::vector<Checkpoint>& out_;
  Checkpoint proto_;  // members of a Checkpoint that are equal in all checkpoints of the loop
  bool possible_ = true;
  size_t n_namespaces_;  // number of namespaces before the loop
  // namespaces at the last record(): live_ has the template's objects, kept_ has copies that outlive the render
  Namespaces live_, kept_;
};

struct RunInput {
  const Json* messages = nullptr;   // nullptr: a plain render, in which `messages` is an ordinary variable
  const Json* variables = nullptr;  // variables of the render, an object
  const Json* defaults = nullptr;   // variables from the model's files, an object; may be nullptr
  bool generation_prompt = false;   // value of the variable add_generation_prompt; read only if `messages` is set
  std::string_view now;             // current time, ISO 8601
  TemplateBudget budget;
  // --- Incremental renders. `resume` must be usable() for `messages`. The JSON values of `resume` point into
  // `variables` and `defaults`, which must be the same objects as when the checkpoint was taken.
  const Checkpoint* resume = nullptr;
  bool take_checkpoints = false;
};

struct RunOutput {
  MarkedText text;  // printed text; after a resume, only the text after the checkpoint
  std::vector<Checkpoint> checkpoints;
  size_t message_iterations = 0;  // iterations of loops over the messages
  uint64_t steps = 0;
};

// Runs a program. Returns errors as a Status and does not throw, so callers outside jinja/ use this function. Errors:
// kTemplateError, kTemplateRaise (the template's own text), kTemplateBudget.
Result<RunOutput> run(const Program& program, const RunInput& input);

}  // namespace ibid::jinja
