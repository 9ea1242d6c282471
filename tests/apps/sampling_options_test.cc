#include "apps/chat/sampling_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ibid {
namespace {

using testing::HasSubstr;

TEST(SamplingOptions, EveryOptionAcceptsThePrintedValue) {
  std::set<std::string> names;
  for (const SamplingOption& option : sampling_options()) {
    EXPECT_TRUE(names.insert(option.name()).second) << option.name();
    EXPECT_EQ(find_sampling_option(option.name()), &option);
    EXPECT_EQ(find_sampling_option("--" + option.name()), &option);
    TurnOptions options;
    const std::string value = option.get(options);
    EXPECT_TRUE(option.set(options, value).ok()) << option.name() << " " << value;
    EXPECT_EQ(option.get(options), value) << option.name();
  }
  EXPECT_EQ(find_sampling_option("temp"), find_sampling_option("temperature"));
  EXPECT_EQ(find_sampling_option("n"), find_sampling_option("max-tokens"));
  EXPECT_EQ(find_sampling_option(""), nullptr);
  EXPECT_EQ(find_sampling_option("---"), nullptr);
}

TEST(SamplingOptions, InvalidValuesAreReportedAndChangeNothing) {
  TurnOptions options;
  const Status range = apply_sampling(options, "top-p", "2");
  EXPECT_EQ(range.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(range.message(), HasSubstr("top-p: 2, allowed: above 0, to 1"));
  EXPECT_EQ(options.sampler.top_p, 1.0);
  for (const auto& [name, value] :
       {std::pair("top-k", "-1"), std::pair("temp", "hot"), std::pair("temp", ""), std::pair("seed", "-1"),
        std::pair("max-tokens", "1e3"), std::pair("speculate", "yes"), std::pair("no-such", "1")}) {
    EXPECT_FALSE(apply_sampling(options, name, value).ok()) << name << " " << value;
  }
  EXPECT_EQ(describe_sampling(options), "");
}

TEST(SamplingOptions, NonDefaultOptionsAreDescribedInCommandLineSyntax) {
  TurnOptions options;
  ASSERT_TRUE(apply_sampling(options, "repeat-penalty", "1.1").ok());
  ASSERT_TRUE(apply_sampling(options, "repeat-last-n", "64").ok());
  ASSERT_TRUE(apply_sampling(options, "seed", "random").ok());
  EXPECT_EQ(describe_sampling(options), "--repeat-penalty 1.1 --repeat-last-n 64");
  ASSERT_TRUE(apply_sampling(options, "repeat-last-n", "-1").ok());
  EXPECT_FALSE(options.sampler.repetition_window.has_value());
}

TEST(SamplingOptions, TerminalAnswersHaveALengthLimitByDefault) {
  EXPECT_EQ(terminal_defaults(8192).max_tokens, 2048u);
  EXPECT_EQ(terminal_defaults(3).max_tokens, 1u);
  EXPECT_TRUE(terminal_defaults(8192).stop_repetition);
  EXPECT_FALSE(TurnOptions{}.stop_repetition);
}

}  // namespace
}  // namespace ibid
