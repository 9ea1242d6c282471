// Executor: runs the statements of a Program and collects the printed text. One object per render. Owns the
// RenderState, and the Evaluator for its expressions. Throws Failure.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/jinja/evaluator.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

class Executor {
 public:
  // All arguments must outlive the object.
  Executor(const Program& program, const RunInput& input);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  RunOutput run();

  // --- Called by the Evaluator for expressions that run statements. Returns what `body` prints.
  MarkedText render(const Body& body, const FramePtr& frame);
  // Runs the body of a recursive loop for another sequence (loop(sequence) in a template), and returns the printed
  // text.
  Value call_loop(LoopObject& loop, const Arguments& arguments);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow execute(const Stmt& stmt, const FramePtr& frame);
  Flow execute_body(const Body& body, const FramePtr& frame);
  Flow execute_if(const Stmt& stmt, const FramePtr& frame);
  void execute_set_block(const Stmt& stmt, const FramePtr& frame);
  void execute_call_block(const Stmt& stmt, const FramePtr& frame);
  void execute_with(const Stmt& stmt, const FramePtr& frame);
  Value through_filters(const std::vector<ExprPtr>& filters, Value value, const FramePtr& frame);
  size_t choose_branch(const Stmt& stmt, const FramePtr& frame);
  void print(const Value& value);
  void print(std::string_view text);
  template <typename Body>
  MarkedText capture(Body&& body);
  std::shared_ptr<Frame> closure_of(const FramePtr& frame);

  // Executes statements that are in no block but {% if %}. A later render can resume at loops over the messages among
  // these statements.
  void execute_outermost(const Body& body, size_t level, const Checkpoint* resume);
  void execute_for(const Stmt& stmt, const FramePtr& frame, const Checkpoint* resume, bool outermost);
  void run_loop(const Stmt& stmt, const FramePtr& frame, const std::shared_ptr<LoopObject>& loop,
                CheckpointRecorder* recorder);
  void restore(const Checkpoint& checkpoint);

  const Program& program_;
  const RunInput& input_;
  RenderState state_;
  Evaluator evaluator_;
  MarkedText output_;
  MarkedText* sink_ = &output_;  // receives printed text: output_, or the text captured for a block
  Path path_;                    // position of the current outermost statement in the template
  size_t output_base_ = 0;       // bytes printed before the checkpoint at which this render resumed
  std::vector<Checkpoint> checkpoints_;
};

template <typename Body>
MarkedText Executor::capture(Body&& body) {
  MarkedText captured;
  MarkedText* const outer = std::exchange(sink_, &captured);
  body();  // no cleanup for exceptions: a Failure ends the whole render, so sink_ is not used again
  sink_ = outer;
  return captured;
}

}  // namespace ibid::jinja
