#include "templates/jinja/interpreter.h"

#include "base/json_limits.h"
#include "templates/jinja/operations.h"

namespace ibid::jinja {
namespace {

// Copies a JSON list or dict of a message into template values that do not refer to the message.
std::optional<Value> copy_json(RenderState& state, const Value& value) {
  const auto level = state.meter.enter_node();
  state.meter.step();
  if (value.is(Kind::kJsonList)) {
    Items items;
    for (size_t i = 0; i < indexable_size(value); ++i) {
      auto item = copy_json(state, element(value, i));
      items.push_back(std::move(*item));
    }
    return Value::list(std::move(items));
  }
  if (value.is(Kind::kJsonDict)) {
    std::vector<Entry> entries;
    for (size_t i = 0; i < dict_size(value); ++i) {
      auto [key, item] = dict_entry(value, i);
      entries.emplace_back(std::move(key), *copy_json(state, item));
    }
    return Value::dict(std::move(entries));
  }
  return value;
}

std::optional<Value> persist_sequence(RenderState& state, const Value& value) {
  const SequenceObject& sequence = value.sequence_object();
  if (sequence.style == SequenceStyle::kGenerator) return std::nullopt;
  Items items;
  for (const Value& item : sequence.items) {
    auto kept = persist(state, item);
    if (!kept) return std::nullopt;
    items.push_back(std::move(*kept));
  }
  return Value::sequence(sequence.style, std::move(items));
}

std::optional<Value> persist_dict(RenderState& state, const Value& value) {
  std::vector<Entry> entries;
  for (const auto& [key, item] : value.dict_object().entries) {
    auto kept_key = persist(state, key), kept = persist(state, item);
    if (!kept_key || !kept) return std::nullopt;
    entries.emplace_back(std::move(*kept_key), std::move(*kept));
  }
  return Value::dict(std::move(entries));
}

// Returns approximately how many bytes a checkpoint needs for `value`. Stops counting beyond `limit`.
size_t held_bytes(const Value& value, size_t limit) {
  switch (value.kind()) {
    case Kind::kString: return value.bytes().size();
    case Kind::kJsonList:
    case Kind::kJsonDict: {
      if (!value.json_source().in_messages || value.json_source().message >= 0) return 0;
      const bool is_list = value.is(Kind::kJsonList);
      const size_t size = is_list ? indexable_size(value) : dict_size(value);
      size_t total = size * sizeof(Value);
      for (size_t i = 0; i < size && total <= limit; ++i) {
        total += held_bytes(is_list ? element(value, i) : dict_entry(value, i).second, limit - total);
      }
      return total;
    }
    case Kind::kSequence: {
      size_t total = 0;
      for (const Value& item : value.sequence_object().items) {
        total += sizeof(Value) + (total <= limit ? held_bytes(item, limit - total) : 0);
      }
      return total;
    }
    case Kind::kDict: {
      size_t total = 0;
      for (const auto& [key, item] : value.dict_object().entries) {
        total += sizeof(Entry) + (total <= limit ? held_bytes(item, limit - total) : 0);
      }
      return total;
    }
    default: return 0;
  }
}

}  // namespace

std::optional<Value> persist(RenderState& state, const Value& value) {
  const auto level = state.meter.enter_node();
  switch (value.kind()) {
    case Kind::kLoop:
    case Kind::kMethod: return std::nullopt;
    case Kind::kMacro:
      if (value.macro_object().closure != nullptr) return std::nullopt;
      return value;
    case Kind::kJsonList:
    case Kind::kJsonDict:
      if (!value.json_source().in_messages || value.json_source().message >= 0) return value;
      return copy_json(state, value);
    case Kind::kSequence: return persist_sequence(state, value);
    case Kind::kDict: return persist_dict(state, value);
    default: return value;
  }
}

Value revive(const Json& messages, const Value& value) {
  switch (value.kind()) {
    case Kind::kJsonList:
    case Kind::kJsonDict: {
      const JsonSource& source = value.json_source();
      if (!source.in_messages) return value;
      return Value::json(messages[static_cast<size_t>(source.message)], source);
    }
    case Kind::kSequence: {
      Items items;
      for (const Value& item : value.sequence_object().items) items.push_back(revive(messages, item));
      return Value::sequence(value.sequence_object().style, std::move(items));
    }
    case Kind::kDict: {
      std::vector<Entry> entries;
      for (const auto& [key, item] : value.dict_object().entries) entries.emplace_back(key, revive(messages, item));
      return Value::dict(std::move(entries));
    }
    default: return value;
  }
}

CheckpointRecorder::CheckpointRecorder(RenderState& state, const Path& path, bool generation_prompt,
                                       std::vector<Checkpoint>& out)
    : state_(state), out_(out), n_namespaces_(state.namespaces.size()) {
  proto_.generation_prompt = generation_prompt;
  // Take no checkpoints if the template read the end of the messages before the loop: then any variable may depend on
  // messages that are appended later.
  possible_ = !state.reads.end && n_namespaces_ <= kMaxNamespaces;
  if (!possible_) return;
  Variables variables;
  for (const auto& [symbol, value] : state.root->variables) {
    auto kept = persist(state, value);
    if (!kept) {
      possible_ = false;
      return;
    }
    variables.emplace_back(symbol, std::move(*kept));
  }
  proto_.path = std::make_shared<const Path>(path);
  proto_.variables = std::make_shared<const Variables>(std::move(variables));
}

size_t CheckpointRecorder::new_bytes(const Attributes* before, const Attributes& now) const {
  size_t total = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const Value& value = now[i].second;
    const bool same = before != nullptr && i < before->size() && (*before)[i].first == now[i].first &&
                      value.identity() != nullptr && (*before)[i].second.identity() == value.identity();
    if (!same) total += held_bytes(value, kMaxNewBytes);
  }
  return total;
}

// Copies the namespaces to kept_. Returns false if no checkpoint can be taken here: this iteration added too much text
// to them, or stored an object that cannot outlive the render.
bool CheckpointRecorder::snapshot_namespaces() {
  if (state_.namespace_escaped) possible_ = false;
  if (!possible_) return false;
  state_.namespaces.resize(n_namespaces_);  // drops namespaces that this iteration made: nothing refers to them
  bool worth_it = true, changed = proto_.namespaces == nullptr;
  const bool first = live_.empty();
  live_.resize(n_namespaces_);
  kept_.resize(n_namespaces_);
  for (size_t i = 0; i < n_namespaces_; ++i) {
    const auto& now = state_.namespaces[i];
    if (live_[i] == now) continue;
    changed = true;
    if (!first && new_bytes(live_[i].get(), *now) > kMaxNewBytes) worth_it = false;
    Attributes kept;
    for (const auto& [name, value] : *now) {
      auto persistent = persist(state_, value);
      if (!persistent) {
        possible_ = false;
        return false;
      }
      kept.emplace_back(name, std::move(*persistent));
    }
    live_[i] = now;
    kept_[i] = std::make_shared<const Attributes>(std::move(kept));
  }
  if (changed) proto_.namespaces = std::make_shared<const Namespaces>(kept_);
  return worth_it;
}

void CheckpointRecorder::record(const LoopObject& loop, size_t output_bytes) {
  if (!possible_) return;
  if (state_.reads.end || loop.has_changed) {
    possible_ = false;  // from here on variables may depend on messages that are appended later
    return;
  }
  if (!snapshot_namespaces()) return;
  Checkpoint checkpoint = proto_;
  checkpoint.reads = state_.reads;
  checkpoint.position = loop.position;
  if (!loop.ahead.empty()) {
    checkpoint.position = static_cast<size_t>(loop.ahead.front().json_source().message);
  }
  checkpoint.iterations = loop.started ? loop.index0 + 1 : 0;
  checkpoint.completed = loop.completed;
  checkpoint.last_message = loop.started ? loop.current.json_source().message : -1;
  checkpoint.output_bytes = output_bytes;
  out_.push_back(std::move(checkpoint));
}

}  // namespace ibid::jinja
