#include "grammar/regular_product.h"

#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace ibid {
namespace {

constexpr size_t kBytesOfState = 150;  // about, with what finds it

using ProductState = std::vector<ConfigId>;

struct ProductStateHash {
  size_t operator()(const ProductState& state) const {
    uint64_t hash = 0;
    for (const ConfigId config : state) hash = (hash ^ config) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    return hash;
  }
};

class ProductWalk {
 public:
  // rules: nullptr where it is only asked whether there is a text.
  ProductWalk(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules* rules, CompileBudget& budget)
      : parts_(parts), max_states_(max_states), rules_(rules), budget_(budget), held_(budget) {}

  Result<RegularProduct> walk() {
    ProductState start;
    for (const RegularPart& part : parts_) start.push_back(part.language->configs().start());
    if (!is_alive(start)) return std::move(out_);
    number_of(start);
    for (uint32_t at = 0; at < states_.size(); ++at) {
      if (states_.size() > max_states_) {
        return {ErrorCode::kLimitExceeded, "what is asked of a string needs more than " +
                                               std::to_string(max_states_) + " states"};
      }
      const ProductState state = *states_[at];
      if (is_final(state)) {
        out_.empty = false;
        if (rules_ == nullptr) return std::move(out_);
        out_.graph.finals.push_back(at);
      }
      add_edges(at, state);
      TRY(account());
    }
    out_.graph.n_states = static_cast<uint32_t>(states_.size());
    return std::move(out_);
  }

 private:
  Status account() {
    held_.set(states_.size() * (kBytesOfState + 2 * parts_.size() * sizeof(ConfigId)) +
              out_.graph.edges.size() * sizeof(ExprGraph::Edge));
    for (const RegularPart& part : parts_) {
      part.language->account(budget_);
      if (part.language->configs().trouble() == Configurations::Trouble::kNone) continue;
      return {ErrorCode::kLimitExceeded, "what is asked of a string takes too much memory"};
    }
    return budget_.status("what is asked of a string");
  }
  bool is_alive(const ProductState& state) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].excluded && state[i] == Configurations::kDead) return false;
    }
    return true;
  }
  bool is_final(const ProductState& state) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].language->configs().may_end(state[i]) == parts_[i].excluded) return false;
    }
    return true;
  }
  uint32_t number_of(const ProductState& state) {
    const auto [found, is_new] = numbers_.emplace(state, static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(&found->first);
    return found->second;
  }

  void add_edges(uint32_t at, const ProductState& state) {
    std::array<bool, 256> possible{};
    parts_[0].language->configs().next_bytes(state[0], possible);
    int64_t last_target = -1;
    uint32_t first_byte = 0;
    size_t n_steps = 1;
    ProductState next(state.size());
    for (uint32_t byte = 0; byte <= 256; ++byte) {
      int64_t target = -1;
      if (byte < 256 && possible[byte]) {
        for (size_t i = 0; i < parts_.size(); ++i) {
          Configurations& configs = parts_[i].language->configs();
          configs.begin_work();
          next[i] = configs.step(state[i], static_cast<uint8_t>(byte));
        }
        n_steps += parts_.size();
        if (is_alive(next)) target = number_of(next);
      }
      if (target == last_target) continue;
      if (last_target >= 0 && rules_ != nullptr) {
        const ExprId label = rules_->byte_range(static_cast<uint8_t>(first_byte), static_cast<uint8_t>(byte - 1));
        out_.graph.add_edge(at, label, static_cast<uint32_t>(last_target));
      }
      last_target = target;
      first_byte = byte;
    }
    budget_.spend(n_steps);
  }

  const std::vector<RegularPart>& parts_;
  const size_t max_states_;
  GrammarRules* const rules_;
  CompileBudget& budget_;
  HeldBytes held_;
  std::unordered_map<ProductState, uint32_t, ProductStateHash> numbers_;
  std::vector<const ProductState*> states_;
  RegularProduct out_;
};

}  // namespace

RegularLanguage::RegularLanguage(ByteAutomaton automaton, CompileBudget& budget)
    : automaton_(std::make_unique<const ByteAutomaton>(std::move(automaton))),
      configs_(std::make_unique<Configurations>(*automaton_, Configurations::Limits{.max_work = 1'000'000})),
      held_(budget) {}

Result<RegularLanguage> RegularLanguage::compile(const GrammarRules& grammar, CompileBudget& budget) {
  TRY_ASSIGN(ByteAutomaton automaton, ByteAutomaton::compile(grammar));
  budget.spend(automaton.n_states() + automaton.n_edges());
  RegularLanguage out(std::move(automaton), budget);
  out.account(budget);
  TRY(budget.status("what is asked of a string"));
  return out;
}

bool RegularLanguage::account(CompileBudget& budget) {
  const uint64_t n_work = configs_->n_work();
  budget.spend((n_work - std::exchange(n_accounted_, n_work)) * CompileBudget::kItemCost);
  return held_.set(automaton_->n_bytes() + configs_->n_bytes());
}

Result<RegularProduct> multiply_regular(const std::vector<RegularPart>& parts, size_t max_states, GrammarRules& rules,
                                        CompileBudget& budget) {
  CHECK(!parts.empty() && !parts[0].excluded);
  return ProductWalk(parts, max_states, &rules, budget).walk();
}

Result<bool> share_a_text(const std::vector<RegularPart>& parts, size_t max_states, CompileBudget& budget) {
  CHECK(!parts.empty() && !parts[0].excluded);
  TRY_ASSIGN(const RegularProduct product, ProductWalk(parts, max_states, nullptr, budget).walk());
  return !product.empty;
}

}  // namespace ibid
