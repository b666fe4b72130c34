# cmake -DOUT=FILE -DHTML=… -DSTYLE=… -DSCRIPTS=…;… -DLIBRARY=… -DLIBRARY_STYLE=… -P embed_page.cmake
#
# Writes the C++ source that holds the files of the report's page as text (command/report/page.h). LIBRARY and
# LIBRARY_STYLE may be empty: dygraphs is not installed.

# Compilers limit the length of one literal: text is put together from several.
set(longest 16000)

function(text_of out)
  set(text "")
  foreach(file IN LISTS ARGN)
    if(file STREQUAL "")
      continue()
    endif()
    # As hexadecimal digits: semicolons and brackets of the text mean something to CMake.
    file(READ ${file} digits HEX)
    string(APPEND text "${digits}")
  endforeach()
  string(LENGTH "${text}" length)
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${text}")
  math(EXPR escaped "2 * ${length}")
  set(literals "")
  set(begin 0)
  while(begin LESS escaped)
    string(SUBSTRING "${text}" ${begin} ${longest} part)
    string(APPEND literals "\n    \"${part}\"")
    math(EXPR begin "${begin} + ${longest}")
  endwhile()
  math(EXPR bytes "${length} / 2")
  set(${out} "{${literals}\n    \"\", ${bytes}}" PARENT_SCOPE)
endfunction()

text_of(html ${HTML})
text_of(style ${STYLE})
text_of(script ${SCRIPTS})
text_of(library_style ${LIBRARY_STYLE})
text_of(library ${LIBRARY})
file(WRITE ${OUT} "// Made by cmake/embed_page.cmake of the files in command/report/page, and of dygraphs.
#include \"command/report/page.h\"

namespace stretto::command {

PageParts page_parts() {
  return {
    .html = ${html},
    .style = ${style},
    .script = ${script},
    .library_style = ${library_style},
    .library = ${library}};
}

}  // namespace stretto::command
")
