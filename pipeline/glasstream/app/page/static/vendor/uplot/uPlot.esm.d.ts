// The types of the vendored uPlot are those of its package, which tests/app/page/javascript/package.json names.
export { default } from "uplot";
