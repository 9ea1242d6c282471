#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ibid::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MetricsTextTest, HelpAndTypeLinesPrecedeAllValuesOfAMetric) {
  MetricsText text;
  text.counter("a_total", "Things.", 1, {{"kind", "x"}});
  text.counter("a_total", "Things.", 2.5, {{"kind", "y"}, {"more", "z"}});
  text.gauge("b", "Now.", 0);
  EXPECT_EQ(
      text.take(),
      "# HELP a_total Things.\n# TYPE a_total counter\na_total{kind=\"x\"} 1\na_total{kind=\"y\",more=\"z\"} 2.5\n"
      "# HELP b Now.\n# TYPE b gauge\nb 0\n");
}

TEST(MetricsTextTest, LabelsAreEscaped) {
  MetricsText text;
  text.gauge("b", "Now.", 1, {{"name", "a\"b\\c\nd"}});
  EXPECT_THAT(text.take(), HasSubstr("b{name=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(MetricsTextTest, HistogramIsCumulative) {
  Histogram histogram;
  for (const double seconds : {0.0005, 0.001, 0.02, 3.0, 1000.0}) histogram.add(seconds);
  MetricsText text;
  text.histogram("t_seconds", "Times.", histogram.sample());
  const std::string all = text.take();
  EXPECT_THAT(all, HasSubstr("# TYPE t_seconds histogram\n"));
  EXPECT_THAT(all, HasSubstr("t_seconds_bucket{le=\"0.001\"} 2\n"));
  EXPECT_THAT(all, HasSubstr("t_seconds_bucket{le=\"0.025\"} 3\n"));
  EXPECT_THAT(all, HasSubstr("t_seconds_bucket{le=\"120\"} 4\n"));
  EXPECT_THAT(all, HasSubstr("t_seconds_bucket{le=\"+Inf\"} 5\n"));
  EXPECT_THAT(all, HasSubstr("t_seconds_count 5\n"));
  EXPECT_EQ(histogram.sample().n, 5u);
  EXPECT_NEAR(histogram.sample().sum, 1003.0215, 1e-3);
}

TEST(ServerMetricsTest, CountsExchangesByRouteAndStatus) {
  ServerMetrics metrics;
  http::ExchangeRecord record{.method = "POST", .pattern = "/v1/x", .status = 200, .n_bytes_in = 3, .n_bytes_out = 5};
  metrics.add(record);
  metrics.add(record);
  record.status = 0;
  record.client_gone = true;
  record.figures = {.model = "tiny",
                    .n_prompt = 9,
                    .n_decoded = 3,
                    .queue_ms = 15,
                    .prefill_ms = 500,
                    .decode_ms = 20,
                    .ttft_ms = 30,
                    .itl_ms = 10,
                    .ended = {"length", "stop", "stop"}};
  metrics.add(record);
  const std::string text = metrics.text({.n_connections = 7, .n_slow_clients = 1}, nullptr, nullptr);
  EXPECT_THAT(text, HasSubstr("ibid_http_requests_total{path=\"/v1/x\",method=\"POST\",status=\"200\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("ibid_http_requests_total{path=\"/v1/x\",method=\"POST\",status=\"0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ibid_http_connections_total 7\n"));
  EXPECT_THAT(text, HasSubstr("ibid_sequences_completed_total{reason=\"stop\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("ibid_prompt_seconds_total 0.5\n"));
  EXPECT_THAT(text, HasSubstr("ibid_n_tokens_max 12\n"));
  EXPECT_THAT(text, HasSubstr("ibid_http_sent_bytes_total 15\n"));
  EXPECT_THAT(text, HasSubstr("ibid_http_clients_gone_total 1\n"));
  EXPECT_THAT(text, HasSubstr("ibid_inter_token_latency_seconds_sum 0.01\n"));
  EXPECT_THAT(text, HasSubstr("ibid_time_to_first_token_seconds_sum 0.045\n"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace ibid::serve
