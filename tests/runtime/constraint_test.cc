// Constraints: masked logits, and answers under narrow constraints.
#include "sampling/constraint.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "sampling/sampler.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// n digits, then the end.
class Digits : public TokenConstraint {
 public:
  explicit Digits(size_t n, std::vector<TokenId> more = {}) : n_(n), more_(std::move(more)) {}
  void allowed(TokenMask& mask) const override {
    for (TokenId id = '0'; id <= '9' && n_ > 0; ++id) mask.add(id);
    for (const TokenId id : more_) mask.add(id);
  }
  bool may_end() const override { return n_ == 0; }
  void push(TokenId id) override {
    EXPECT_TRUE(id >= '0' && id <= '9') << id;
    --n_;
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Digits>(*this); }

 private:
  size_t n_;
  std::vector<TokenId> more_;
};

// Allows nothing after n tokens, not even the end.
class DeadEnd : public TokenConstraint {
 public:
  explicit DeadEnd(size_t n) : n_(n) {}
  void allowed(TokenMask& mask) const override {
    if (n_ > 0) mask.add('x');
  }
  bool may_end() const override { return false; }
  void push(TokenId) override { --n_; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<DeadEnd>(*this); }

 private:
  size_t n_;
};

std::set<TokenId> allowed(NextTokens& next, std::span<const float> logits) {
  std::set<TokenId> out;
  const auto row = next.restrict(logits);
  EXPECT_TRUE(row.ok()) << row.status().to_string();
  if (!row.ok()) return out;
  for (size_t i = 0; i < row->size(); ++i) {
    if ((*row)[i] == -kInf) continue;
    EXPECT_EQ((*row)[i], logits[i]);
    out.insert(static_cast<TokenId>(i));
  }
  return out;
}

TEST(NextTokensTest, NoConstraintReturnsLogitsUnchanged) {
  NextTokens next(nullptr, {2}, 0);
  const std::vector<float> logits = {1, 2, 3};
  EXPECT_EQ(next.restrict(logits)->data(), logits.data());
}

TEST(NextTokensTest, MinTokensForbidsOnlyEndTokens) {
  NextTokens next(nullptr, {2, 99}, 2);
  const std::vector<float> logits = {1, 2, 3};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(allowed(next, logits), (std::set<TokenId>{0, 1}));
    next.push(0);
  }
  EXPECT_EQ(allowed(next, logits), (std::set<TokenId>{0, 1, 2}));
}

TEST(NextTokensTest, ConstraintDecidesWhetherEndTokensAreAllowed) {
  const std::vector<float> logits(130, 1.0f);
  std::set<TokenId> digits;
  for (TokenId id = '0'; id <= '9'; ++id) digits.insert(id);
  const Digits prototype(2, {100});  // allows the token that ends a turn
  NextTokens next(&prototype, {100, 129}, 0);
  EXPECT_EQ(allowed(next, logits), digits) << "the end is forbidden";
  next.push('3');
  EXPECT_EQ(allowed(next, logits), digits);
  next.push('4');
  EXPECT_EQ(allowed(next, logits), (std::set<TokenId>{100, 129})) << "and then forced";
  EXPECT_FALSE(prototype.may_end()) << "the prototype does not change";
  next.push(129);  // not pushed to the constraint, which would fail
}

// Allows the given sets, one per token.
class Script : public TokenConstraint {
 public:
  explicit Script(std::vector<std::vector<TokenId>> sets) : sets_(std::move(sets)) {}
  void allowed(TokenMask& mask) const override {
    for (const TokenId id : sets_[at_]) mask.add(id);
  }
  bool may_end() const override { return false; }
  void push(TokenId) override { ++at_; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Script>(*this); }

 private:
  std::vector<std::vector<TokenId>> sets_;
  size_t at_ = 0;
};

// Few tokens, then many, then few others: each mask is exact, and costs one copy per token if these are few.
TEST(NextTokensTest, FewAllowedTokensCostFewCopies) {
  constexpr TokenId kSize = 5000;
  std::vector<TokenId> many;
  for (TokenId id = 0; id < kSize; id += 2) many.push_back(id);
  const std::vector<std::vector<TokenId>> sets = {{3, 64, 4999}, {5, 64}, many, {7}, {3, 8}, many, many, {0, 63}};
  NextTokens next(std::make_unique<Script>(sets).get(), {kSize - 2}, 0);
  size_t n_copied = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    std::vector<float> logits(kSize);
    for (size_t id = 0; id < logits.size(); ++id) logits[id] = static_cast<float>(id * (i + 1) % 97);
    std::set<TokenId> expected(sets[i].begin(), sets[i].end());
    expected.erase(kSize - 2);
    EXPECT_EQ(allowed(next, logits), expected) << i;
    n_copied += sets[i].size() > 10 ? kSize : sets[i].size();
    EXPECT_EQ(next.n_copied(), n_copied) << i;
    next.push(sets[i][0]);
  }
  std::vector<float> logits(kSize, 1.0f);
  NextTokens other(std::make_unique<Script>(sets).get(), {}, 0);
  logits[4000] = std::numeric_limits<float>::quiet_NaN();
  const auto row = other.restrict(logits);
  ASSERT_TRUE(row.ok());
  EXPECT_NE((*row)[4000], (*row)[4000]) << "NaN is left for the sampler to reject";
}

TEST(NextTokensTest, MaskWithoutAllowedTokensIsAnError) {
  const std::vector<float> logits(130, 1.0f);
  const Digits none(0);
  NextTokens early(&none, {100}, 1);
  EXPECT_EQ(early.restrict(logits).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(early.restrict(logits).status().message().find("min_tokens"), std::string::npos);
  NextTokens no_end(&none, {}, 0);
  EXPECT_EQ(no_end.restrict(logits).status().code(), ErrorCode::kInvalidArgument);
  const DeadEnd dead(0);
  NextTokens stuck(&dead, {100}, 0);
  EXPECT_EQ(stuck.restrict(logits).status().code(), ErrorCode::kInvalidArgument);
}

TEST(NextTokensTest, NonFiniteLogitsAreNotMasked) {
  std::vector<float> logits(130, 1.0f);
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  const Digits digits(1);
  NextTokens next(&digits, {100}, 0);
  Sampler sampler = *Sampler::create({.temperature = 0});
  EXPECT_EQ(sampler.sample(*next.restrict(logits)).status().code(), ErrorCode::kNonFinite);
}

TEST(TokenMaskTest, MaskHasOnlyTokensOfTheVocabulary) {
  TokenMask mask(70);
  for (const TokenId id : {0, 63, 64, 69, 70, 1000, -1}) mask.add(id);
  for (TokenId id = -2; id < 200; ++id) {
    EXPECT_EQ(mask.has(id), id == 0 || id == 63 || id == 64 || id == 69) << id;
  }
  mask.remove(63);
  mask.remove(-1);
  EXPECT_FALSE(mask.has(63));
  mask.clear();
  EXPECT_FALSE(mask.has(0));
}

TEST(ConstrainedChatTest, AnswerHasOnlyAllowedTokens) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnOptions options{.sampler = {.temperature = 1, .min_p = 0, .seed = 1}, .max_tokens = 20};
  options.constraint = std::make_shared<Digits>(5);
  for (const bool speculate : {true, false}) {
    options.speculate = speculate;
    const Turn turn = must(chat.send("x", options));
    EXPECT_EQ(turn.text.size(), 5u);
    EXPECT_EQ(turn.text.find_first_not_of("0123456789"), std::string::npos) << turn.text;
    EXPECT_EQ(turn.finish_reason, FinishReason::kStop) << "the end was forced";
  }
  ChatSession fork = *chat.fork();
  EXPECT_EQ(must(fork.regenerate(options)).text.size(), 5u) << "each turn has its own clone";
  options.max_tokens = 3;
  EXPECT_EQ(must(chat.send("y", options)).finish_reason, FinishReason::kLength);
  expect_replays(chat);
}

TEST(ConstrainedChatTest, DeadEndFailsTheTurnAndChangesNothing) {
  for (const size_t n : {0, 4}) {
    ChatFixture f;
    ChatSession chat = f.session();
    must(chat.send("x", greedy()));
    const SessionSnapshot before(chat);
    TurnOptions options = greedy();
    options.constraint = std::make_shared<DeadEnd>(n);
    const auto turn = chat.send("y", options);
    EXPECT_EQ(turn.status().code(), ErrorCode::kInvalidArgument) << turn.status().to_string();
    EXPECT_TRUE(SessionSnapshot(chat) == before);
    options.constraint = nullptr;
    must(chat.send("y", options));
    expect_replays(chat);
  }
}

}  // namespace
}  // namespace ibid
