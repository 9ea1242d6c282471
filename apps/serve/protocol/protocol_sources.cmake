# What of this folder knows no service: the files of the library ibid_protocol.
file(GLOB protocol_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc)
list(FILTER protocol_sources EXCLUDE REGEX "/(protocols|service_backend)\\.cc$")
