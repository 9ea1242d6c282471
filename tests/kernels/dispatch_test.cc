#include "kernels/ops/dispatch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ibid {
namespace {

TEST(Dispatch, RefIsAlwaysSupportedAndTheBestInstructionSetIsChosen) {
  EXPECT_TRUE(isa_supported(Isa::kRef));
  const Result<Isa> best = choose_isa(nullptr);
  ASSERT_TRUE(best.ok());
  for (Isa isa : kAllIsas) {
    EXPECT_TRUE(!isa_supported(isa) || *best >= isa) << isa_name(isa);
  }
  EXPECT_EQ(*choose_isa(""), *best);
}

TEST(Dispatch, ForcedInstructionSetIsChosenOrReportedAsUnsupported) {
  for (Isa isa : kAllIsas) {
    const Result<Isa> chosen = choose_isa(isa_name(isa));
    ASSERT_EQ(chosen.ok(), isa_supported(isa));
    if (chosen.ok()) {
      EXPECT_EQ(*chosen, isa);
      EXPECT_STREQ(kernels_for(isa).name, isa_name(isa));
    } else {
      EXPECT_EQ(chosen.status().code(), ErrorCode::kInvalidArgument);
    }
  }
}

TEST(Dispatch, UnknownInstructionSetErrorNamesTheSet) {
  const Result<Isa> chosen = choose_isa("sse9");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(chosen.status().message().find("sse9"), std::string::npos);
}

TEST(Dispatch, EnvironmentVariableForcesTheInstructionSet) {
  const char* forced = std::getenv("IBID_FORCE_ISA");
  const Result<Isa> active = active_isa();
  const Result<Isa> wanted = choose_isa(forced);
  ASSERT_EQ(active.ok(), wanted.ok());
  if (active.ok()) {
    EXPECT_EQ(*active, *wanted);
  }
}

}  // namespace
}  // namespace ibid
