// Light or dark: the system's choice, unless the switch was used. Runs before the page is drawn.
(() => {
  const KEY = 'carnet-theme';
  const root = document.documentElement;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const read = () => {
    try { return localStorage.getItem(KEY); } catch { return null; }
  };
  const apply = (theme) => {
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  const told = () => dispatchEvent(new Event('carnet-theme'));
  window.carnetTheme = {
    isDark: () => (root.dataset.theme ?? (dark.matches ? 'dark' : 'light')) === 'dark',
    toggle() {
      const theme = this.isDark() ? 'light' : 'dark';
      apply(theme);
      try { localStorage.setItem(KEY, theme); } catch { /* Only this page has it. */ }
      told();
    },
  };
  dark.addEventListener('change', told);
  apply(read());
})();
