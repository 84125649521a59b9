/* Search results show an excerpt of each page. The search of Sphinx fetches the pages for it, which
   a browser forbids for a site that is opened from a disk. So they come from pagetexts.js. */
window.fetch = async (url) => {
  const name = String(url).replace(/^(\.\/)+/, "").replace(/\.html.*$/, "");
  return { text: async () => PAGE_TEXTS[name] ?? "" };
};
