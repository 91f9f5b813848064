# Reads containers/versions.env: NAME=value becomes NOISEMARK_PIN_NAME.
set(versions_file ${PROJECT_SOURCE_DIR}/containers/versions.env)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${versions_file})
file(STRINGS ${versions_file} version_lines REGEX "^[A-Z0-9_]+=")
foreach(line IN LISTS version_lines)
  string(REGEX MATCH "^([A-Z0-9_]+)=\"?([^\"]*)\"?$" matched "${line}")
  set(NOISEMARK_PIN_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
