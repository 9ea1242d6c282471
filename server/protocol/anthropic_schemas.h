// JSON schemas of what stands in requests to /v1/messages (Anthropic), for the description of the endpoints.
#pragma once

#include <string_view>

namespace ibid::serve {

inline constexpr std::string_view kAnthropicMessagesSchema =
    R"({"type":"array","minItems":1,"items":{"anyOf":[{"type":"object","required":["role","content"],"properties":)"
    R"({"role":{"const":"user"},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":)"
    R"("object","required":["type","text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}},{"type":)"
    R"("object","required":["type","tool_use_id"],"properties":{"type":{"const":"tool_result"},"tool_use_id":{"type":)"
    R"("string"},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type",)"
    R"("text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}}}]}}}]}}]}}},)"
    R"({"type":"object","required":["role","content"],"properties":{"role":{"const":"assistant"},"content":)"
    R"({"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":"object","required":["type","text"],)"
    R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}},{"type":"object","required":["type","id",)"
    R"("name","input"],"properties":{"type":{"const":"tool_use"},"id":{"type":"string"},"name":{"type":"string",)"
    R"("minLength":1},"input":{"type":"object"}}},{"type":"object","required":["type","thinking"],"properties":)"
    R"({"type":{"const":"thinking"},"thinking":{"type":"string"}}},{"type":"object","required":["type"],"properties":)"
    R"({"type":{"const":"redacted_thinking"}}}]}}]}}}]}})";
inline constexpr std::string_view kAnthropicToolChoiceSchema =
    R"({"type":"object","required":["type"],"properties":{"type":{"enum":["auto","any","tool","none"]},"name":)"
    R"({"type":"string"},"disable_parallel_tool_use":{"type":"boolean"}},"anyOf":[{"properties":{"type":{"enum":)"
    R"(["auto","any","none"]}}},{"required":["name"]}]})";
inline constexpr std::string_view kAnthropicFormatSchema =
    R"({"type":"object","required":["type","schema"],"properties":{"type":{"const":"json_schema"},"schema":)"
    R"({"type":"object"}}})";
inline constexpr std::string_view kAnthropicConfigSchema =
    R"({"type":"object","properties":{"format":{"type":"object","required":["type","schema"],"properties":{"type":)"
    R"({"const":"json_schema"},"schema":{"type":"object"}}},"effort":{"enum":["none","minimal","low","medium","high",)"
    R"("xhigh","max"]}}})";

}  // namespace ibid::serve
