// Checkpoint: the state of a render between two iterations of an outermost loop over the messages, from which
// a later render of the same, longer conversation goes on. Small: it holds no messages (only their numbers),
// and shares what did not change since the one before.
//
// A checkpoint is usable only while what the template had read by then is still the same; usable() decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "templates/jinja/loop.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

// The way to a statement: its index, and the branch where it is an {% if %}.
struct PathStep {
  size_t index = 0;
  size_t branch = 0;
};
using Path = std::vector<PathStep>;
using Namespaces = std::vector<std::shared_ptr<const Attributes>>;

struct Checkpoint {
  std::shared_ptr<const Path> path;            // of the loop
  std::shared_ptr<const Variables> variables;  // of the outermost frame
  std::shared_ptr<const Namespaces> namespaces;
  MessageReads reads;
  bool generation_prompt = false;  // its value then
  size_t position = 0;             // index of the next message
  size_t iterations = 0;           // of the loop so far
  bool completed = false;          // LoopObject::completed
  int64_t last_message = -1;       // the one iterated last, for loop.previtem
  size_t output_bytes = 0;         // printed so far

  bool usable(size_t n_unchanged, size_t n_messages, bool with_generation_prompt) const {
    return reads.messages <= n_unchanged && reads.known_length <= n_messages &&
           (!reads.generation_prompt || generation_prompt == with_generation_prompt);
  }
};

// `value` without pointers into the messages; nullopt when it cannot outlive its render.
std::optional<Value> persist(RenderState& state, const Value& value);
// The reverse: messages by number become the caller's messages again.
Value revive(const Json& messages, const Value& value);

// Takes checkpoints of one loop.
class CheckpointRecorder {
 public:
  CheckpointRecorder(RenderState& state, const Path& path, bool generation_prompt,
                     std::vector<Checkpoint>& out);

  // Call at the end of an iteration that `loop` will follow with another. `output_bytes`: printed so far.
  void record(const LoopObject& loop, size_t output_bytes);

 private:
  // Text that namespaces took up in one iteration and that a checkpoint would have to hold. More, and the
  // iteration gets none: a template that collects the conversation in a namespace must not make memory
  // quadratic.
  static constexpr size_t kMaxNewBytes = 4096;
  static constexpr size_t kMaxNamespaces = 64;

  bool snapshot_namespaces();
  size_t new_bytes(const Attributes* before, const Attributes& now) const;

  RenderState& state_;
  std::vector<Checkpoint>& out_;
  Checkpoint proto_;  // what is the same for all iterations
  bool possible_ = true;
  size_t n_namespaces_;     // that existed before the loop
  Namespaces live_, kept_;  // as of the last call: what the template sees, and its persistent form
};

}  // namespace ibid::jinja
