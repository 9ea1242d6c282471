#include "sampling/grammar/regular_product.h"

#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "sampling/grammar/configurations.h"

namespace ibid {
namespace {

// One part, run on bytes.
struct RunningPart {
  ByteAutomaton automaton;
  std::unique_ptr<Configurations> configs;
  bool excluded;
};

using ProductState = std::vector<ConfigId>;

class ProductWalk {
 public:
  ProductWalk(std::vector<RunningPart>& parts, size_t max_states, GrammarRules& rules)
      : parts_(parts), max_states_(max_states), rules_(rules) {}

  Result<RegularProduct> walk() {
    ProductState start;
    for (RunningPart& part : parts_) start.push_back(part.configs->start());
    if (!is_alive(start)) return std::move(out_);
    number_of(start);
    for (uint32_t at = 0; at < states_.size(); ++at) {
      if (states_.size() > max_states_) {
        return {ErrorCode::kLimitExceeded, "what is asked of a string needs more than " +
                                               std::to_string(max_states_) + " states"};
      }
      const ProductState state = states_[at];
      if (is_final(state)) out_.graph.finals.push_back(at);
      add_edges(at, state);
      for (const RunningPart& part : parts_) {
        if (part.configs->trouble() == Configurations::Trouble::kNone) continue;
        return {ErrorCode::kLimitExceeded, "what is asked of a string takes too much memory"};
      }
    }
    out_.graph.n_states = static_cast<uint32_t>(states_.size());
    out_.empty = out_.graph.finals.empty();
    return std::move(out_);
  }

 private:
  bool is_alive(const ProductState& state) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].excluded && state[i] == Configurations::kDead) return false;
    }
    return true;
  }
  bool is_final(const ProductState& state) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].configs->may_end(state[i]) == parts_[i].excluded) return false;
    }
    return true;
  }
  uint32_t number_of(const ProductState& state) {
    const auto [found, is_new] = numbers_.emplace(state, static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(state);
    return found->second;
  }

  void add_edges(uint32_t at, const ProductState& state) {
    std::array<bool, 256> possible{};
    parts_[0].configs->next_bytes(state[0], possible);
    int64_t last_target = -1;
    uint32_t first_byte = 0;
    ProductState next(state.size());
    for (uint32_t byte = 0; byte <= 256; ++byte) {
      int64_t target = -1;
      if (byte < 256 && possible[byte]) {
        for (size_t i = 0; i < parts_.size(); ++i) {
          parts_[i].configs->begin_work();
          next[i] = parts_[i].configs->step(state[i], static_cast<uint8_t>(byte));
        }
        if (is_alive(next)) target = number_of(next);
      }
      if (target == last_target) continue;
      if (last_target >= 0) {
        const ExprId label = rules_.byte_range(static_cast<uint8_t>(first_byte), static_cast<uint8_t>(byte - 1));
        out_.graph.add_edge(at, label, static_cast<uint32_t>(last_target));
      }
      last_target = target;
      first_byte = byte;
    }
  }

  std::vector<RunningPart>& parts_;
  const size_t max_states_;
  GrammarRules& rules_;
  std::map<ProductState, uint32_t> numbers_;
  std::vector<ProductState> states_;
  RegularProduct out_;
};

}  // namespace

Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules) {
  CHECK(!parts.empty() && !parts[0].excluded);
  std::vector<RunningPart> running;
  running.reserve(parts.size());  // configurations refer to their automaton
  for (const RegularPart& part : parts) {
    TRY_ASSIGN(ByteAutomaton automaton, ByteAutomaton::compile(*part.grammar));
    running.push_back({std::move(automaton), nullptr, part.excluded});
    running.back().configs = std::make_unique<Configurations>(running.back().automaton, Configurations::Limits{});
  }
  return ProductWalk(running, max_states, rules).walk();
}

}  // namespace ibid
