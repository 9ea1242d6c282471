#include "templates/jinja/meter.h"

#include <string>
#include <vector>

#include "base/json_limits.h"
#include "templates/jinja/failure.h"

namespace ibid::jinja {
namespace {

// Bytes of all strings (keys included) plus a few for every value. Iterative: the caller's JSON may be deep.
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
  fail_budget("the template nests or recurses deeper than " + std::to_string(budget_.max_depth) +
              " (budget: depth)");
}

}  // namespace ibid::jinja
