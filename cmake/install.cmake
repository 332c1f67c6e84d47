# Licence, headers, libraries, command line, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/snls)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY include/snls DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS snls_shared snls_static EXPORT snlsTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(plugin snls_ffmpeg snls_cuda snls_nn_cuda) # beside libsnls.so, which looks for them there
    if(TARGET ${plugin})
        install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
endforeach()
install(EXPORT snlsTargets NAMESPACE snls:: DESTINATION ${package_dir})
if(SNLS_HAVE_CLI)
    install(TARGETS snls RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(DIRECTORY weights DESTINATION ${CMAKE_INSTALL_DATADIR}/snls FILES_MATCHING PATTERN "*.safetensors" PATTERN "*.json")
    install(DIRECTORY ${SNLS_PAGES}/man DESTINATION ${CMAKE_INSTALL_DATADIR})
    install(FILES ${SNLS_PAGES}/snls DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${SNLS_PAGES}/_snls DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${SNLS_PAGES}/snls.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

configure_package_config_file(cmake/snlsConfig.cmake.in ${PROJECT_BINARY_DIR}/snlsConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/snlsConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/snlsConfig.cmake ${PROJECT_BINARY_DIR}/snlsConfigVersion.cmake DESTINATION ${package_dir})

list(JOIN SNLS_LINK_WORDS " " SNLS_PC_LIBS_PRIVATE)
file(RELATIVE_PATH SNLS_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH SNLS_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR}) # also where it was given as a whole path
file(RELATIVE_PATH SNLS_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
string(REGEX REPLACE "/$" "" SNLS_PC_PREFIX "${SNLS_PC_PREFIX}")
configure_file(cmake/snls.pc.in ${PROJECT_BINARY_DIR}/snls.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/snls.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
