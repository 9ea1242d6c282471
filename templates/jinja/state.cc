#include "templates/jinja/state.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

const Value* Frame::find(Symbol symbol) const {
  for (const auto& [name, value] : variables) {
    if (name == symbol) return &value;
  }
  return nullptr;
}

void Frame::set(Symbol symbol, Value value) {
  for (auto& [name, old] : variables) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

FramePtr inner_scope(const FramePtr& frame) {
  auto scope = std::make_shared<Frame>();
  scope->parent = frame;
  return scope;
}

RenderState::~RenderState() {
  for (const FramePtr& frame : captured) frame->variables.clear();
}

void RenderState::set_attribute(size_t name_space, const std::string& name, Value value) {
  auto attributes = std::make_shared<Attributes>(*namespaces[name_space]);
  meter.create(attributes->size() * sizeof(Value));
  size_t i = 0;
  while (i < attributes->size() && (*attributes)[i].first != name) ++i;
  if (i == attributes->size()) attributes->emplace_back(name, Value());
  (*attributes)[i].second = std::move(value);
  namespaces[name_space] = std::move(attributes);
}

bool RenderState::has_message(size_t index) {
  if (messages == nullptr || index >= messages->size()) {
    reads.end = true;
    return false;
  }
  reads.known_length = std::max(reads.known_length, index + 1);
  return true;
}

std::optional<Value> RenderState::message(size_t index) {
  if (!has_message(index)) return std::nullopt;
  reads.messages = std::max(reads.messages, index + 1);
  JsonSource source;
  source.in_messages = true;
  source.message = static_cast<int64_t>(index);
  Value value = Value::json((*messages)[index], source);
  // A message that is not an object becomes a value without its index in the messages. A checkpoint cannot refer to
  // such a value, so a later render must not resume after this read.
  if (!value.is_dict()) reads.end = true;
  return value;
}

size_t RenderState::message_count() {
  reads.end = true;
  return messages == nullptr ? 0 : messages->size();
}

std::vector<Value> RenderState::all_messages_from(size_t first) {
  std::vector<Value> all;
  const size_t count = message_count();
  meter.create(count * sizeof(Value));
  for (size_t i = first; i < count; ++i) all.push_back(*message(i));
  return all;
}

namespace {

// Counts the bytes of all strings (keys included), plus 8 for every value. Iterative, because the caller's JSON may be
// deeply nested.
uint64_t json_bytes(const Json& root) {
  uint64_t bytes = 0;
  std::vector<const Json*> open{&root};
  while (!open.empty()) {
    const Json& json = *open.back();
    open.pop_back();
    bytes += 8;
    if (json.is_string()) {
      bytes += json.get_ref<const std::string&>().size();
    } else if (json.is_array()) {
      for (const Json& child : json) open.push_back(&child);
    } else if (json.is_object()) {
      for (const auto& [key, child] : json.get_ref<const Json::object_t&>()) {
        bytes += key.size();
        open.push_back(&child);
      }
    }
  }
  return bytes;
}

}  // namespace

uint64_t Meter::steps_for(const Json* messages) {
  return messages == nullptr ? 0 : messages->size() * kStepsPerMessage;
}

uint64_t Meter::outside_bytes() {
  if (!outside_known_) {
    outside_known_ = true;
    if (messages_ != nullptr) outside_bytes_ += json_bytes(*messages_);
    if (variables_ != nullptr) outside_bytes_ += json_bytes(*variables_);
  }
  return outside_bytes_;
}

void Meter::grow_or_refuse(uint64_t used, uint64_t& limit, uint64_t factor) {
  limit = (budget_.max_output_bytes + outside_bytes()) * factor;
  if (used <= limit) return;
  fail_budget("the template makes more than " + std::to_string(limit) + " bytes of " +
              (factor == 1 ? "output" : "intermediate text") + " (budget: bytes)");
}

void Meter::check_string(uint64_t bytes) {
  if (bytes <= budget_.max_output_bytes) return;
  const uint64_t limit = budget_.max_output_bytes + outside_bytes();
  if (bytes <= limit) return;
  fail_budget("a string of " + std::to_string(bytes) + " bytes is longer than " + std::to_string(limit) +
              " (budget: bytes)");
}

void Meter::refuse_steps() const {
  fail_budget("the template takes more than " + std::to_string(max_steps_) + " steps (budget: steps)");
}

void Meter::refuse_depth() const {
  fail_budget("the template nests or recurses deeper than " + std::to_string(budget_.max_depth) + " (budget: depth)");
}

}  // namespace ibid::jinja
