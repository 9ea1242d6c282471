#include "templates/jinja/state.h"

#include <algorithm>

#include "base/json_limits.h"

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
  // A message that is no object forgets its number, without which nothing can be resumed.
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

}  // namespace ibid::jinja
